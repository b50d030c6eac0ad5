"""How far from the mode a chain is (`inflation`); what h and friction follow from it: dynamics/pace.py.

Far away the noise is larger than near the mode, and a thermostat that takes all of it out hardly moves. So the chain is
allowed a variance of `inflation` times the posterior's: the noise counts 1/inflation as much, and the inflation, which
is measured at every renewal, falls to 1 on the way. Once it is 1 it stays 1.
"""

import jax.numpy as jnp

from isotherm.dynamics.covariance import Estimate, positive
from isotherm.lib.types import Array, Bool, Int, Number, Scalar, Vector
from isotherm.targets.noisy import Sampling

FAR_ERRORS = 4.0  # standard errors by which a distance from the mode must be more than 1 to be believed
NEAR_DISTANCE = 10.0  # a mean square distance from the mode, in posterior variances, that needs no help
COOLING = 4.0  # by how much the mean square distance falls until the next renewal
AWAY_WINDOW = 4.0  # renewals over which a low-rank S is averaged where it falls fast; of others, 2/3 are the newest
HOME_STEPS = 4096  # after which no chain is taken to be far away
FORCE_BATCHES = 16  # from whose rows together the force is computed that tells a distance
LEAST_CURVATURE = 1e-6  # over the largest, by which a distance is measured: what float32 knows of it


def is_far(inflation: Scalar) -> Bool[Array, ""]:
    return inflation > 1


def averaging_window(window: Number, inflation: Scalar) -> Scalar:
    """Return over how many renewals S is averaged."""
    return jnp.where(is_far(inflation), jnp.minimum(AWAY_WINDOW, window), window).astype(inflation.dtype)


def is_measured(step: Int[Array, ""], due: Bool[Array, ""], inflation: Scalar) -> Bool[Array, ""]:
    """Return whether the inflation is measured anew before this step."""
    return (step == 0) | (due & is_far(inflation) & (step < HOME_STEPS))


def curvature_trust(step: Int[Array, ""], ramp_steps: int, dtype: jnp.dtype) -> Scalar:
    """Return 2^(step/ramp), which bounds h and the inflation in the first steps, wherever the chain is."""
    return jnp.exp2(step.astype(dtype) / ramp_steps)


def measured_inflation(
    estimate: Estimate,
    force: Vector,
    momentum: Vector,
    sampling: Sampling,
    temperature: Number,
    curvature_ratio: float,
    curvature_trust: Scalar,
) -> Scalar:
    """Return the variance of the chain to allow until the next renewal, relative to the posterior's; 1 near the mode.

    F·K⁻¹F/d, less what the noise of F adds to it, is the mean square distance to the mode in standard deviations, and
    p·p/d that to which the momentum leads; their sum over COOLING is allowed, unless it is no more than chance could
    make it. Far away K may be far too small (a logistic regression whose labels are all wrong has none), so at first
    the curvature of a right model counts if it is larger.
    """
    d = momentum.size
    found = careful = momentum @ momentum / temperature - d
    chance, least = jnp.zeros_like(found), positive(LEAST_CURVATURE * estimate.strongest)
    for s, f in zip(estimate.directions(), estimate.rotated(force[None]), strict=True):
        K = jnp.maximum(s.curvature, least)
        noise = s.noise * sampling.share / (temperature * K)
        square = f[0] ** 2 / temperature
        found += s.sign * jnp.sum(square / K) - s.total(noise)
        careful += s.sign * jnp.sum(square / jnp.maximum(K, curvature_ratio * s.noise))
        chance += s.total((1 + noise) ** 2)
    is_believed = found / d > jnp.maximum(1 + FAR_ERRORS * jnp.sqrt(2 * chance) / d, NEAR_DISTANCE)
    allowed = jnp.minimum(found / COOLING, careful * curvature_trust) / d
    is_believed &= estimate.measures_distances()
    return jnp.where(is_believed, jnp.clip(allowed, 1, sampling.population), 1).astype(momentum.dtype)

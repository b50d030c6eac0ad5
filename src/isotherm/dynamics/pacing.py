"""What a thermostat chooses from an estimate of S and K: the pace of its steps, the mass of badly scaled columns, and
how far from the mode it takes itself to be.

Far away the noise is larger than near the mode, and a thermostat that takes all of it out hardly moves. So the chain is
allowed a variance of `inflation` times the posterior's: the noise counts 1/inflation as much, and the inflation, which
is measured at every renewal, falls to 1 on the way. Once it is 1 it stays 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from isotherm.dynamics import flows
from isotherm.dynamics.covariance import Coordinates, Directions, Estimate
from isotherm.lib.types import Array, Bool, Int, Number, Scalar, Setting, Vector
from isotherm.targets.noisy import Sampling

# Bounds of h at "auto":
NOISE_BOUND = 2.0  # of (h²/2)βλ for an eigenvalue λ from the middle of S; beyond, most directions are overdamped
CURVATURE_BOUND = 0.25  # of the eigenvalues of h²K(I + (h²/2)βS)⁻¹, since S and K need not have the same eigenvectors
IDENTITY_BOUND = 1.0  # of the same where K is known to be I: S then has its eigenvectors, and y is exact at any h

# The ratio r of A to the noise friction of the directions outside a low-rank estimate, where A is "auto":
VARIANCE_ERROR = 0.1  # the root mean square error of variances there that r is chosen for,
ACCURATE_RATIO = 5.0  # where an r up to this is enough for it: chains are then at most six times as slow
SPREAD_RATIO = 2.0  # the least r, over the root of the relative spread of the noise there,
LARGEST_RATIO = 64.0  # where that is up to this

RESOLVED_MASS = 250.0  # least βμ/h²: what steps do not resolve of a thermostat adds 2.5h²/(βμ) to the kurtosis

# Far from the mode:
FAR_ERRORS = 4.0  # standard errors by which a distance from the mode must be more than 1 to be believed
NEAR_DISTANCE = 10.0  # a mean square distance from the mode, in posterior variances, that needs no help
COOLING = 4.0  # by how much the mean square distance falls until the next renewal
AWAY_WINDOW = 4.0  # renewals over which a low-rank S is averaged where it falls fast; of others, 2/3 are the newest
HOME_STEPS = 4096  # after which no chain is taken to be far away
FORCE_BATCHES = 16  # from whose rows together the force is computed that tells a distance
LEAST_CURVATURE = 1e-6  # over the largest, by which a distance is measured: what float32 knows of it

# The mass:
SCALE_RATIO = 1e4  # of the largest to the least curvature of a column, above which float32's seven digits need a mass
MASS_RATIO = 1e-12  # of the least to the largest mass: its inverse root is within the range of float32


class Pace(NamedTuple):
    """What steps need of S and K until the next renewal: h, A, the noise friction y = hΓ along each of the estimate's
    directions, the mean of p·p over a step in equilibrium, and μ."""

    step_size: Scalar
    friction: Scalar
    noise_friction: Coordinates
    energy: Scalar
    thermal_mass: Scalar


class Rules(NamedTuple):
    """What a pace follows from beside the estimate; None is "auto". `balances_friction`: whether the variance of the
    scheme is known for any A (dynamics/flows.py), not for A = 0 alone; `bound`: of h²K, one of the above."""

    step_size: Scalar | None
    friction: Setting | None
    thermal_mass: Setting | None
    temperature: Setting
    balances_friction: bool
    bound: float
    curvature_ratio: float

    def pace(self, estimate: Estimate, inflation: Scalar, trust: Scalar) -> Pace:
        """Return the pace. At first h is no more than the curvature allows without any friction, so that Ŝ follows a
        start far from the mode before h relies on it."""
        h = self._automatic_step(estimate, inflation) if self.step_size is None else self.step_size
        h, T = jnp.minimum(h, trust * largest_step(estimate.ceiling, self.bound)), self.temperature
        A = self._friction(estimate, inflation, h)
        loss = -jnp.expm1(-h * A) if self.balances_friction else jnp.zeros_like(h)
        directions = estimate.directions()
        y = tuple(self._noise_friction(each, inflation, h, loss) for each in directions)
        energy = sum(s.total(flows.kinetic_energy(y, loss)) for s, y in zip(directions, y, strict=True))
        d = sum(s.sign * s.number for s in directions)
        mu = jnp.maximum(d, RESOLVED_MASS * h * h * T) if self.thermal_mass is None else self.thermal_mass
        return Pace(h, A, y, jnp.asarray(T * energy, h.dtype), jnp.asarray(mu, h.dtype))

    def _automatic_step(self, estimate: Estimate, inflation: Scalar) -> Scalar:
        """Return the h at which noise and curvature are at their bounds; less where the friction could not outweigh the
        noise of directions that a low-rank estimate leaves out."""
        noise, ratio = unseen_noise(estimate)
        bound = jnp.minimum(NOISE_BOUND, 1 / positive(ratio))  # A cools only where a step is at most 1/A
        h = jnp.sqrt(2 * bound * self.temperature * inflation / positive(estimate.middle()))
        h = jnp.minimum(h, largest_step(estimate.stiffness, self.bound))
        if self.friction is None:
            return h
        outweighed = 2 * self.friction * self.temperature / positive(ratio * noise)
        return jnp.where(self.friction > 0, jnp.minimum(h, outweighed), h)

    def _friction(self, estimate: Estimate, inflation: Scalar, h: Scalar) -> Scalar:
        """Return A: 1 at "auto", or so much that it cools the directions that a low-rank estimate leaves out and that
        have more noise than their mean, whose friction all get."""
        if self.friction is not None:
            return jnp.asarray(self.friction, h.dtype)
        noise, ratio = unseen_noise(estimate)
        return jnp.maximum(1, ratio * h / (2 * self.temperature * inflation) * noise)

    def _noise_friction(self, s: Directions, inflation: Scalar, h: Scalar, loss: Scalar) -> Array:
        """Return y; far from the mode at least half of critical damping, so that the chain does not swing through."""
        y = flows.balanced(h * h / (2 * self.temperature * inflation) * s.noise, h * h * s.curvature, loss)
        damping = h * jnp.sqrt(jnp.maximum(s.curvature, self.curvature_ratio * s.noise))
        return jnp.where(is_far(inflation), jnp.maximum(y, damping), y)


def unseen_noise(estimate: Estimate) -> tuple[Scalar, Scalar]:
    """Return the mean noise of the directions that an estimate leaves out, and r, how many times its noise friction A
    should be. With s the standard deviation of that noise over its mean, variances there are off by s/(1 + r), root
    mean square, and a chain is 1 + r times as slow."""
    mean, spread = estimate.unseen()
    accurate = jnp.minimum(spread / VARIANCE_ERROR, ACCURATE_RATIO)
    return mean, jnp.maximum(accurate, jnp.minimum(SPREAD_RATIO * jnp.sqrt(spread), LARGEST_RATIO))


def largest_step(curvature: Scalar, bound: float) -> Scalar:
    """Return the h with h²K = bound."""
    return jnp.sqrt(bound / positive(curvature))


def is_far(inflation: Scalar) -> Bool[Array, ""]:
    return inflation > 1


def averaging_window(window: Number, inflation: Scalar) -> Scalar:
    """Return over how many renewals S is averaged."""
    return jnp.where(is_far(inflation), jnp.minimum(AWAY_WINDOW, window), window).astype(inflation.dtype)


def is_measured(step: Int[Array, ""], due: Bool[Array, ""], inflation: Scalar) -> Bool[Array, ""]:
    """Return whether the inflation is measured anew before this step."""
    return (step == 0) | (due & is_far(inflation) & (step < HOME_STEPS))


def trust(step: Int[Array, ""], ramp_steps: int, dtype: jnp.dtype) -> Scalar:
    """Return by how much more than at the first step the curvature is trusted."""
    return jnp.exp2(step.astype(dtype) / ramp_steps)


def measured_inflation(
    estimate: Estimate,
    force: Vector,
    momentum: Vector,
    sampling: Sampling,
    temperature: Number,
    curvature_ratio: float,
    trust: Scalar,
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
    allowed = jnp.minimum(found / COOLING, careful * trust) / d
    is_believed &= estimate.measures_distances()
    return jnp.where(is_believed, jnp.clip(allowed, 1, sampling.population), 1).astype(momentum.dtype)


def inverse_root_mass(expected: Vector, measured: Vector | None) -> Vector:
    """Return w = M^(−1/2): 1, or, where the columns' scales differ too much for float32, M the diagonal of K: the
    `measured` one, or that `expected` in a right model where it is larger, or K is not finite or cannot be had."""
    M = expected
    if measured is not None:
        M = jnp.where(jnp.isfinite(measured), jnp.maximum(M, measured), M)
    M = jnp.maximum(M, MASS_RATIO * M.max())
    return jnp.where(M.max() > SCALE_RATIO * M.min(), jax.lax.rsqrt(positive(M)), 1)


def positive(value: Array) -> Array:
    """Return `value`, or so much more than 0 that a number of ordinary size can be divided by it."""
    return jnp.maximum(value, jnp.finfo(value.dtype).tiny * 1e6)

"""The pace of a thermostat's steps: step size h, friction A, noise frictions y, thermal mass μ and expected energy.

All follow from an estimate of S and K, and hold until the next renewal. Far from the mode the temperature of the chain
is allowed to be `inflation` times as large (dynamics/distance.py), so that h may be up to √inflation times as large.

How much noise friction does a step need, so that a Gaussian posterior keeps its variance whatever the step size?
In one direction, let the curvature of −log π be k, the variance of the force's noise σ², the friction A and the
temperature 1/β. One step of BEOEB (kick, half of E, Ornstein–Uhlenbeck, half of E) with the noise friction Γ is linear,
so its stationary variance is known in closed form. It depends on four numbers:

    x = h²βσ²/2    the noise of the force
    κ = h²k        the curvature
    ζ = 1 − e^(−hA)    what Ornstein–Uhlenbeck takes of the momentum
    y = hΓ         the noise friction

and is 1/(βk), as it should be, when

    x = y + ζ[y(a + a²/(1 − a))/b − (1 + a)²(2 − ζ)/(2b²)] + (κ/2)r,    a = e^(−y/2),  b = 1 + (1 − ζ)a,

with r as in `noise_balanced_by`. For ζ = 0 that is x = y − (κ/2)tanh(y/2). For small steps y = x, the friction of
CCAdL; for h → ∞ the step becomes θ ← θ + 2(βσ² + k)⁻¹F̃, which is stable and exact for every k.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from isotherm.dynamics.covariance import Coordinates, Directions, Estimate, positive
from isotherm.dynamics.distance import is_far
from isotherm.dynamics.flows import Values, decay_average
from isotherm.lib.types import Array, Number, Scalar, Setting

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

# Newton's method for y:
NEWTON_STEPS = 4  # from an upper bound: within 1e-4 of the root where κ < 1 (tests/dynamics/test_pace.py)
LEAST_FRICTION = 1e-12  # stands for no friction; one can still divide by its square in float32
LEAST_SLOPE = 0.1  # the least dx/dy that it divides by, so that its steps stay bounded


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
    scheme is known for any A, not for A = 0 alone; `bound`: of h²K, one of the above."""

    step_size: Scalar | None
    friction: Setting | None
    thermal_mass: Setting | None
    temperature: Setting
    balances_friction: bool
    bound: float
    curvature_ratio: float

    def pace(self, estimate: Estimate, inflation: Scalar, curvature_trust: Scalar) -> Pace:
        """Return the pace. At first h is no more than the curvature allows without any friction, so that Ŝ follows a
        start far from the mode before h relies on it."""
        h = self._automatic_step(estimate, inflation) if self.step_size is None else self.step_size
        h, T = jnp.minimum(h, curvature_trust * largest_step(estimate.ceiling, self.bound)), self.temperature
        A = self._friction(estimate, inflation, h)
        loss = -jnp.expm1(-h * A) if self.balances_friction else jnp.zeros_like(h)
        directions = estimate.directions()
        y = tuple(self._noise_friction(each, inflation, h, loss) for each in directions)
        energy = sum(s.total(kinetic_energy(y, loss)) for s, y in zip(directions, y, strict=True))
        d = sum(s.sign * s.number for s in directions)
        mu = jnp.maximum(d, RESOLVED_MASS * h * h * T) if self.thermal_mass is None else self.thermal_mass
        return Pace(h, A, y, jnp.asarray(T * energy, h.dtype), jnp.asarray(mu, h.dtype))

    def _automatic_step(self, estimate: Estimate, inflation: Scalar) -> Scalar:
        """Return the h at which noise and curvature are at their bounds; less where the friction could not outweigh the
        noise of directions that a low-rank estimate leaves out. Far from the mode 1/inflation of the noise counts, here
        and in `stiffness`."""
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
        y = balanced(h * h / (2 * self.temperature * inflation) * s.noise, h * h * s.curvature, loss)
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


def noise_balanced_by(y: Values, curvature: Values, loss: Number) -> Values:
    """x for a given y. All differences that vanish with y are written so that float32 keeps their digits."""
    half_loss, a = -jnp.expm1(-y / 2), jnp.exp(-y / 2)
    keep = 1 - loss
    b, both = 1 + keep * a, 1 + keep * a * a
    without = y + loss * (y * (a + a * a / half_loss) / b - (1 + a) ** 2 * (2 - loss) / (2 * b * b))
    inner = (2 * a + (1 - keep * a * a) / b) / both - 1 / b
    r = jnp.expm1(-y) / both + loss * ((2 - loss) * half_loss / y * inner - a * a / both)
    return without + curvature / 2 * r


def balanced(x: Values, curvature: Values, loss: Number) -> Values:
    """y for a given x, by Newton's method from above: x(y) is convex there, so every step stays above the root."""
    begin = x + curvature / 2 + loss * (2 - loss) / 2 + LEAST_FRICTION

    def closer(_: Array, y: Values) -> Values:
        value, slope = jax.jvp(lambda y: noise_balanced_by(y, curvature, loss), (y,), (jnp.ones_like(y),))
        return jnp.maximum(y - (value - x) / jnp.maximum(slope, LEAST_SLOPE), LEAST_FRICTION)

    root: Values = jax.lax.fori_loop(0, NEWTON_STEPS, closer, begin)
    return root


def kinetic_energy(y: Values, loss: Number) -> Values:
    """Return the mean of βp² over the two halves of E in equilibrium: 1 up to a term of order yζ, whatever κ."""
    a, keep = jnp.exp(-y / 2), 1 - loss
    g, b, both = decay_average(y / 2) / 2, 1 + keep * a, 1 + keep * a * a
    kicked = 2 * (1 - g * loss * (2 - loss) * (a + (1 - keep * a * a) / (2 * b))) / (g * b * both)
    return decay_average(y) * (kicked * (1 + keep * keep * a * a) + loss * (2 - loss)) / 2

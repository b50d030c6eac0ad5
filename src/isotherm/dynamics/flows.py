"""The exact flow of each letter, in mass-whitened variables: p stands for M^(−1/2)p, w for M^(−1/2).

A  dθ = w p dt                            drift
B  dp = F̃ dt                              kick
C  dp = −Γ p dt,  Γ = (h/2)βS             noise friction
O  dp = −ξ p dt + √(2A/β) dW              Ornstein–Uhlenbeck
D  dξ = (p·p − d/β)/μ dt                  thermostat

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

from isotherm.lib.types import Array, Float, Number, Scalar, Vector

Values = Float[Array, "..."]

NEWTON_STEPS = 4  # steps from an upper bound: within 1e-4 of the root where κ < 1 (tests/dynamics/test_flows.py)
LEAST_FRICTION = 1e-12  # stands for no friction; one can still divide by its square in float32
LEAST_SLOPE = 0.1  # the least dx/dy that Newton's method divides by, so that its steps stay bounded


def drift(position: Vector, momentum: Vector, w: Vector | Number, t: Number) -> Vector:
    return position + t * w * momentum


def kick(momentum: Vector, force: Vector, t: Number) -> Vector:
    return momentum + t * force


def ornstein_uhlenbeck(
    momentum: Vector, noise: Vector, xi: Number, friction: Number, temperature: Number, t: Number
) -> Vector:
    """p ← e^(−ξt) p + √((A/β)(1 − e^(−2ξt))/ξ) R, for ξ of any sign."""
    spread = 2 * t * friction * temperature * decay_average(2 * xi * t)
    return jnp.exp(-xi * t) * momentum + jnp.sqrt(spread) * noise


def thermostat(xi: Scalar, momentum: Vector, temperature: Number, thermal_mass: Number, t: Number) -> Scalar:
    """ξ ← ξ + (t/μ)(p·p − d/β)."""
    return xi + t / thermal_mass * (momentum @ momentum - momentum.size * temperature)


def decay_average(x: Values | float) -> Values:
    """φ(x) = (1 − e^(−x))/x, the average of e^(−xs) over s in [0, 1]; 1 at x = 0."""
    safe = jnp.where(x == 0, 1, x)
    return jnp.where(x == 0, 1, -jnp.expm1(-safe) / safe)


class Path(NamedTuple):
    """Where E leads in a time t: by how much it moves the position, over t; the momentum after it; p·p on average."""

    moved: Array
    momentum: Array
    energy: Scalar


def joint(momentum: Array, y: Array) -> Path:
    """E: drift and noise friction together, in coordinates in which the friction is y/t:

        θ ← θ + tφ(y)p,    p ← e^(−y)p,    p·p averages p·φ(2y)p

    is the exact solution; the last is half (φ(y)p)·(p + e^(−y)p), since φ(2y) = φ(y)(1 + e^(−y))/2."""
    moved, after = decay_average(y) * momentum, jnp.exp(-y) * momentum
    return Path(moved, after, jnp.sum(moved * (momentum + after)) / 2)


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

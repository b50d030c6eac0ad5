"""The exact flow of each letter, in mass-whitened variables: p stands for M^(−1/2)p, w for M^(−1/2).

A  dθ = w p dt                            drift
B  dp = F̃ dt                              kick
C  dp = −Γ p dt,  Γ = (h/2)βS             noise friction
O  dp = −ξ p dt + √(2A/β) dW              Ornstein–Uhlenbeck
D  dξ = (p·p − d/β)/μ dt                  thermostat
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from isotherm.types import Number, Scalar, Vector

Function = Callable[[Array], Array]
Apply = Callable[[Sequence[Function]], Sequence[Vector]]


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


def decay_average(x: Float[Array, "..."] | float) -> Float[Array, "..."]:
    """φ(x) = (1 − e^(−x))/x, the average of e^(−xs) over s in [0, 1]; 1 at x = 0."""
    safe = jnp.where(x == 0, 1, x)
    return jnp.where(x == 0, 1, -jnp.expm1(-safe) / safe)


def joint(apply: Apply, momentum: Vector, rate: Function, t: Number) -> tuple[Vector, Vector, Scalar]:
    """E: drift, noise friction and thermostat together, with Γ = rate(S): φ(tΓ)p, e^(−tΓ)p and p·φ(2tΓ)p, of which

        θ ← θ + w tφ(tΓ)p,    p ← e^(−tΓ)p,    ξ ← ξ + (t/μ)(p·φ(2tΓ)p − d/β)

    is the exact solution; the last is half (φ(tΓ)p)·(p + e^(−tΓ)p), since φ(2x) = φ(x)(1 + e^(−x))/2. `apply` takes
    functions f and gives f(S)p for each.
    """
    moved, after = apply([lambda s: decay_average(t * rate(s)), lambda s: jnp.exp(-t * rate(s))])
    return moved, after, moved @ (momentum + after) / 2

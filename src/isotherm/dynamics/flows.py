"""The exact flow of each letter, in mass-whitened variables: p stands for M^(−1/2)p, w for M^(−1/2).

A  dθ = w p dt                            drift
B  dp = F̃ dt                              kick
C  dp = −Γ p dt,  Γ = (h/2)βS             noise friction
O  dp = −ξ p dt + √(2A/β) dW              Ornstein–Uhlenbeck
D  dξ = (p·p − d/β)/μ dt                  thermostat
"""

from typing import NamedTuple

import jax.numpy as jnp

from isotherm.lib.types import Array, Float, Number, Scalar, Vector


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

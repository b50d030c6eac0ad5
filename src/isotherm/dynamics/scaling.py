"""A diagonal mass for columns of very different scales, and safe divisions."""

import jax
import jax.numpy as jnp

from isotherm.lib.types import Array, Vector

SCALE_RATIO = 1e4  # of the largest to the least curvature of a column, above which float32's seven digits need a mass
MASS_RATIO = 1e-12  # of the least to the largest mass: its inverse root is within the range of float32


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

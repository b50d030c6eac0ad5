"""The largest eigenvalue by the power method: of a matrix, or of one that is known only by its products."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from isotherm.dynamics.covariance.estimate import Condition
from isotherm.lib.types import Array, Matrix, RandomKey, Scalar, Vector

POWER = 32  # steps of it


def norm(v: Vector) -> Scalar:
    """Return ‖v‖, also where its square overflows."""
    plain, largest = jnp.linalg.norm(v), jnp.max(jnp.abs(v))
    return jnp.where(jnp.isfinite(plain), plain, largest * jnp.linalg.norm(v / largest))


def strongest_direction(matrix: Matrix, scale: Vector) -> tuple[Scalar, Vector]:
    """Return the largest eigenvalue of D^(−1/2) M D^(−1/2), D the diagonal `scale`, and D^(−1/2) times its eigenvector.

    By the power method: an eigen-decomposition would cost a hundred times as much, and a tenth more or less is no
    matter."""
    root = jax.lax.rsqrt(scale)
    start = jnp.cos(1 + jnp.arange(scale.size, dtype=scale.dtype) ** 2)  # in no direction in particular

    def turn(_: Array, v: Vector) -> Vector:
        image = root * (matrix @ (root * v))
        return image / jnp.maximum(norm(image), jnp.finfo(scale.dtype).tiny)

    v = jax.lax.fori_loop(0, POWER, turn, start / jnp.linalg.norm(start))
    return norm(root * (matrix @ (root * v))), root * v


class Outside(NamedTuple):
    """The strongest curvature outside a span, by steps of the power method."""

    vector: Vector
    strongest: Scalar

    @classmethod
    def random(cls, position: Vector, key: RandomKey) -> "Outside":
        v = jax.random.normal(key, position.shape, position.dtype)
        return cls(v / jnp.linalg.norm(v), jnp.zeros((), position.dtype))

    def renewed(self, due: Condition, image: Vector) -> "Outside":
        """`image` is K times the vector, without its part in the span."""
        size = norm(image)
        turns = due & (size > 0)
        # The norm of Kv is nearer to the largest eigenvalue than v·Kv, and never beyond it.
        strongest = jnp.where(size > self.strongest, size, (self.strongest + size) / 2)
        vector = jnp.where(turns, image / jnp.where(size > 0, size, 1), self.vector)
        return Outside(vector, jnp.where(due, strongest, self.strongest))

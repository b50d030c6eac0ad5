"""The diagonals of S and K."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from isotherm.dynamics.covariance.estimate import (
    Condition,
    Coordinates,
    Directions,
    Local,
    Needs,
    Outside,
    blend,
    windowed,
)
from isotherm.lib.types import Array, Float, Number, RandomKey, Scalar, Vector


class Diagonal(NamedTuple):
    """K̂ along a coordinate comes from products with random signs z: z ∘ Kz has K's diagonal as its mean."""

    renewals: Scalar
    values: Vector
    median: Scalar
    curvatures: Vector
    outside: Outside
    ceiling: Scalar

    @classmethod
    def first(cls, local: Local, position: Vector, rank: int, key: RandomKey) -> "Diagonal":
        values = local.covariance.diagonal()
        zero, outside = jnp.zeros((), values.dtype), Outside.random(position, key)
        nothing = cls(zero, values, jnp.median(values), jnp.zeros_like(values), outside, zero)
        return nothing._renewed(local, zero + 1, key)

    @classmethod
    def needs(cls, d: int, rank: int) -> Needs:
        return Needs(rows=0, interval=5, parts=1, ramp_steps=100, scales=False)

    def forget(self, when: Condition) -> "Diagonal":
        return self._replace(renewals=jnp.where(when, jnp.minimum(self.renewals, 1), self.renewals))

    def _renewed(self, local: Local, weight: Scalar, key: RandomKey) -> "Diagonal":
        values = blend(self.values, local.covariance.diagonal(), weight)
        signs = jax.random.rademacher(key, self.values.shape, self.values.dtype)
        curvatures = blend(self.curvatures, signs * local.curved(signs, local.covariance.matvec(signs)), weight)
        strong = self.outside.vector
        outside = self.outside.renewed(jnp.array(True), local.curved(strong, local.covariance.matvec(strong)))
        ceiling = jnp.maximum(outside.strongest, local.ratio * jnp.max(values))
        return Diagonal(self.renewals + 1, values, jnp.median(values), curvatures, outside, ceiling)

    def renewed(
        self, due: Condition, curvature_due: Condition, local: Local, window: Number, key: RandomKey
    ) -> "Diagonal":
        weight = windowed(self.renewals + 1, window)
        after: Diagonal = jax.lax.cond(due, lambda: self._renewed(local, weight, key), lambda: self)
        return after

    def directions(self) -> tuple[Directions, ...]:
        return (Directions(self.values, jnp.maximum(self.curvatures, 0), self.values.size),)

    def rotated(self, rows: Float[Array, "m d"]) -> Coordinates:
        return (rows,)

    def restored(self, coordinates: Coordinates) -> Float[Array, "m d"]:
        return coordinates[0]

    @property
    def strongest(self) -> Scalar:
        return self.outside.strongest

    @property
    def stiffness(self) -> Scalar:
        """All of K: the diagonal does not know the friction in K's strongest direction."""
        return self.outside.strongest

    def measures_distances(self) -> Condition:
        return jnp.array(True)

    def middle(self) -> Scalar:
        return self.median

    def unseen(self) -> tuple[Scalar, Scalar]:
        return jnp.zeros_like(self.renewals), jnp.zeros_like(self.renewals)

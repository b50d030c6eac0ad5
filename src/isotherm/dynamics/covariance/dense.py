"""S and K as matrices."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from isotherm.dynamics.covariance.estimate import (
    Condition,
    Coordinates,
    Directions,
    Local,
    Needs,
    blend,
    strongest_direction,
    windowed,
)
from isotherm.lib.types import Array, Float, Matrix, Number, RandomKey, Scalar, Vector

ROWS = (
    5  # for each parameter: from few, the eigenvalues of S would be spread by (1 ± √(d/n))², and the friction too small
)
ROUNDS = 3  # of the power method, for the curvature that noise does not outweigh
SEEN = 1e-5  # an eigenvalue over the largest, at least, that float32 knows
STALE = 0.5  # of the noise that is remembered, at least, that a batch must have; if not, it is forgotten
FAR = 4.0  # standard errors by which it must be less
MOST_LEFT_OUT = 0.5  # of the noise along the eigenvectors of an average over few rows


class Dense(NamedTuple):
    """Along its own eigenvectors an average over m rows says too little of S: of S = I it says 1 − d/m, as a harmonic
    mean, by the law of Marchenko and Pastur; and where few rows have most of the gradient, only they count as m. So
    before a batch enters the average, its S is compared with the eigenvalues there are (`left_out`). If it is far less,
    what is remembered is of the way to the mode, and the average begins anew."""

    renewals: Scalar
    average: Matrix
    values: Vector
    vectors: Matrix
    curvature: Matrix
    curvatures: Vector
    strongest: Scalar
    stiffness: Scalar
    ceiling: Scalar
    concentration: Scalar  # the sum of the squares of the weights with which batches are in the average
    left_out: Scalar  # d/m for one batch, as found
    least_left_out: Scalar  # if all rows of a batch count the same

    @classmethod
    def first(cls, local: Local, position: Vector, rank: int, key: RandomKey) -> "Dense":
        """S = 0 and K = I, until the renewal before the first step, which counts alone."""
        zero, one, none = jnp.zeros((), position.dtype), jnp.ones((), position.dtype), jnp.zeros_like(position)
        identity = jnp.eye(position.size, dtype=position.dtype)
        return cls(zero, jnp.zeros_like(identity), none, identity, identity, none + 1, one, one, one, one, zero, zero)

    @classmethod
    def _of(cls, count: Scalar, S: Matrix, K: Matrix, local: Local, *known: Scalar) -> "Dense":
        values, vectors = jnp.linalg.eigh(S)
        values, rotated = jnp.maximum(values, 0), vectors.T @ (K @ vectors)
        curvatures = jnp.maximum(jnp.diagonal(rotated), 0)
        strongest = strongest_direction(K, jnp.ones_like(values))[0]
        least, weights = 1e-6 * strongest + jnp.finfo(values.dtype).tiny, local.share * values

        def closer(_: Array, stiffness: Scalar) -> Scalar:
            """(K − share·S)v = λv is Kv = (λ + share·S)v, whose eigenvalue is 1."""
            _, v = strongest_direction(rotated, jnp.maximum(stiffness, least) + weights)
            quotient: Scalar = (v @ (rotated @ v) - v @ (weights * v)) / (v @ v)
            return quotient

        stiffness = jax.lax.fori_loop(0, ROUNDS, closer, strongest)
        ceiling = jnp.maximum(strongest, local.ratio * values[-1])
        return cls(count, S, values, vectors, K, curvatures, strongest, stiffness, ceiling, *known)

    @classmethod
    def needs(cls, d: int, rank: int) -> Needs:
        return Needs(rows=ROWS * d, interval=max(50, d), parts=1, ramp_steps=25, scales=True)

    def forget(self, when: Condition) -> "Dense":
        return self._replace(renewals=jnp.where(when, jnp.minimum(self.renewals, 1), self.renewals))

    def renewed(
        self, due: Condition, curvature_due: Condition, local: Local, window: Number, key: RandomKey
    ) -> "Dense":
        def renew() -> Dense:
            S, K = local.covariance.dense(), self.curvature
            ratio = self._ratio(S)
            chance = FAR * math.sqrt(2 * local.parameters_a_row) / self.values.size  # of Gaussian rows
            stale = ratio < STALE - chance
            count = jnp.where(stale, 1, self.renewals + 1)
            weight, half = windowed(count, window), jnp.where(self.renewals > 0, 0.5, 1).astype(S.dtype)
            K = jax.lax.cond(curvature_due, lambda: blend(K, local.dense_curvature(S), half), lambda: K)
            concentration = (1 - weight) ** 2 * self.concentration + weight**2
            # Less noise than remembered, by more than chance, is a way that is not over; it says nothing of the rows.
            found = jnp.where(stale, 0, jnp.maximum(1 - 1 / jnp.maximum(ratio, STALE), -chance) / self.concentration)
            left_out = blend(self.left_out, found, weight), jnp.full_like(weight, local.parameters_a_row)
            return self._of(count, blend(self.average, S, weight), K, local, concentration, *left_out)

        after: Dense = jax.lax.cond(due, renew, lambda: self)
        return after

    def _ratio(self, S: Matrix) -> Scalar:
        """S, from rows that are not in the average, over the average, in the mean over all directions; 0 at first."""
        known = (self.values > SEEN * self.values[-1]).astype(S.dtype)
        along = jnp.sum(self.vectors * (S @ self.vectors), axis=0)
        return jnp.sum(known * along / jnp.where(known > 0, self.values, 1)) / jnp.maximum(known.sum(), 1)

    def directions(self) -> tuple[Directions, ...]:
        left_out = jnp.minimum(self.concentration * jnp.maximum(self.left_out, self.least_left_out), MOST_LEFT_OUT)
        return (Directions(self.values / (1 - left_out), self.curvatures, self.values.size),)

    # Products with one vector at a time: for two at once XLA would copy the transposed matrix at every step.
    def rotated(self, rows: Float[Array, "m d"]) -> Coordinates:
        return (jnp.stack([row @ self.vectors for row in rows]),)

    def restored(self, coordinates: Coordinates) -> Float[Array, "m d"]:
        return jnp.stack([self.vectors @ row for row in coordinates[0]])

    def measures_distances(self) -> Condition:
        return jnp.array(True)

    def middle(self) -> Scalar:
        return self.values[self.values.size // 2]

    def unseen(self) -> tuple[Scalar, Scalar]:
        return jnp.zeros_like(self.renewals), jnp.zeros_like(self.renewals)

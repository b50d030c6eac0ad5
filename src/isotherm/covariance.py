"""The covariance S of the force, remembered over batches, and functions of it applied to a vector.

An estimate is an average Ŝ ← Ŝ + κ(S − Ŝ) over batches, with κ = 1/t for all of them alike (`running`) or a memory of
the last w or so (`windowed`). Three sizes behind one interface:

    Dense      Ŝ itself and its eigen-decomposition; d² memory
    LowRank    its k leading eigenvectors, and the mean of the remaining eigenvalues in all other directions; kd memory
    Diagonal   its diagonal

Each has `first(covariance, position, rank, key)`, `renewed(due, covariance, window, key)`, which does nothing unless
`due`, a condition that is the same for all chains, and `apply(functions, v)` for f(Ŝ)v. It takes `parts(d, rank)`
renewals to see all of it once. Each tells its `largest()` eigenvalue, one from its `middle()`, and how large one may be
in an `unseen()` direction.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from isotherm.posterior import Covariance
from isotherm.types import Matrix, Number, RandomKey, Scalar, Vector

Function = Callable[[Float[Array, "..."]], Float[Array, "..."]]
Condition = Bool[Array, ""]

BLOCK = 2  # how many of its directions a low-rank estimate renews at a time


def running(count: Scalar) -> Scalar:
    """κ = 1/t, t the number of this batch: every batch counts the same."""
    return 1 / count


def windowed(count: Scalar, window: Number) -> Scalar:
    """κ = max(2/(t+1), 1/w): while there are few, later batches count more, since the first were far from the mode."""
    return jnp.maximum(2 / (count + 1), 1 / window)


def blend(old: Array, new: Array, weight: Scalar) -> Array:
    return old + weight * (new - old)


class Dense(NamedTuple):
    renewals: Scalar
    average: Matrix
    values: Vector
    vectors: Matrix

    @classmethod
    def first(cls, covariance: Covariance, position: Vector, rank: int, key: RandomKey) -> "Dense":
        average = covariance.dense()
        return cls._of(jnp.ones((), average.dtype), average)

    @classmethod
    def _of(cls, count: Scalar, average: Matrix) -> "Dense":
        values, vectors = jnp.linalg.eigh(average)
        return cls(count, average, jnp.maximum(values, 0), vectors)

    @classmethod
    def parts(cls, d: int, rank: int) -> int:
        return 1

    def renewed(self, due: Condition, covariance: Covariance, window: Number, key: RandomKey) -> "Dense":
        def renew() -> Dense:
            count = self.renewals + 1
            return self._of(count, blend(self.average, covariance.dense(), windowed(count, window)))

        return jax.lax.cond(due, renew, lambda: self)

    def apply(self, functions: Sequence[Function], v: Vector) -> list[Vector]:
        inside = v @ self.vectors
        return list(jnp.stack([f(self.values) * inside for f in functions]) @ self.vectors.T)

    def largest(self) -> Scalar:
        return self.values[-1]

    def middle(self) -> Scalar:
        return self.values[self.values.size // 2]

    def unseen(self) -> Scalar:
        return jnp.zeros_like(self.renewals)


class Diagonal(NamedTuple):
    renewals: Scalar
    values: Vector
    median: Scalar

    @classmethod
    def first(cls, covariance: Covariance, position: Vector, rank: int, key: RandomKey) -> "Diagonal":
        values = covariance.diagonal()
        return cls(jnp.ones((), values.dtype), values, jnp.median(values))

    @classmethod
    def parts(cls, d: int, rank: int) -> int:
        return 1

    def renewed(self, due: Condition, covariance: Covariance, window: Number, key: RandomKey) -> "Diagonal":
        def renew() -> Diagonal:
            count = self.renewals + 1
            values = blend(self.values, covariance.diagonal(), windowed(count, window))
            return Diagonal(count, values, jnp.median(values))

        return jax.lax.cond(due, renew, lambda: self)

    def apply(self, functions: Sequence[Function], v: Vector) -> list[Vector]:
        return [f(self.values) * v for f in functions]

    def largest(self) -> Scalar:
        return jnp.max(self.values)

    def middle(self) -> Scalar:
        return self.median

    def unseen(self) -> Scalar:
        return jnp.max(self.values)


class LowRank(NamedTuple):
    """Ŝ = QᵀTQ + ρ(I − QᵀQ), the rows of Q orthonormal. They are renewed a block at a time, in turn: products with
    this batch's S give columns of T and where outside the span their rows should turn to, and one more gives ρ."""

    renewals: Scalar
    basis: Float[Array, "k d"]
    projected: Float[Array, "k k"]
    values: Float[Array, " k"]
    vectors: Float[Array, "k k"]
    rest: Scalar

    @classmethod
    def first(cls, covariance: Covariance, position: Vector, rank: int, key: RandomKey) -> "LowRank":
        """Three rounds of renewals with this one batch: the first makes random directions of nothing."""
        d, dtype = position.size, position.dtype
        if d < 2:
            raise ValueError('covariance="low_rank" needs at least 2 parameters, got 1; use "dense"')
        k = cls._rank(d, rank)
        zero, square = jnp.zeros((), dtype), jnp.zeros((k, k), dtype)
        nothing = cls(zero, jnp.zeros((k, d), dtype), square, jnp.zeros((k,), dtype), jnp.eye(k, dtype=dtype), zero)

        def renew(i: Array, estimate: LowRank) -> LowRank:
            parts = estimate._renewed_block(covariance, zero + 1, zero + 1, jax.random.fold_in(key, i))
            return estimate._with(zero + i + 1, *parts)

        found = jax.lax.fori_loop(0, 3 * nothing._blocks, renew, nothing)
        return found._replace(renewals=jnp.full_like(zero, nothing._blocks))

    @staticmethod
    def _rank(d: int, rank: int) -> int:
        k = min(rank, d - 1)
        return k - k % min(BLOCK, k)

    @classmethod
    def parts(cls, d: int, rank: int) -> int:
        return max(1, cls._rank(d, rank) // BLOCK)

    def renewed(self, due: Condition, covariance: Covariance, window: Number, key: RandomKey) -> "LowRank":
        """Computed in any case and then chosen: a branch would copy the whole basis, of which only a block changes."""

        def renew() -> tuple[Array, ...]:
            visits = jnp.floor(self.renewals / self._blocks) + 1  # of this block
            weights = windowed(visits, window), windowed(self.renewals + 1, window)
            return self.renewals + 1, *self._renewed_block(covariance, *weights, key)

        def keep() -> tuple[Array, ...]:
            return self.renewals, self._block(), self.projected, self.values, self.vectors, self.rest

        return self._with(*(jnp.where(due, new, old) for new, old in zip(renew(), keep(), strict=True)))

    def _renewed_block(
        self, covariance: Covariance, weight: Scalar, rest_weight: Scalar, key: RandomKey
    ) -> tuple[Array, ...]:
        begin, block = self._begin(), self._block()
        images = jax.lax.map(covariance.matvec, block)
        inside = images @ self.basis.T
        columns = blend(jax.lax.dynamic_slice_in_dim(self.projected, begin, self._size), inside, weight)
        projected = jax.lax.dynamic_update_slice_in_dim(self.projected, columns, begin, 0)
        projected = jax.lax.dynamic_update_slice_in_dim(projected.T, columns, begin, 0)
        values, vectors = jnp.linalg.eigh((projected + projected.T) / 2)

        # Subspace iteration as far as this batch counts, q ← sq + κSq, orthonormal to the other rows; s lies between
        # q·Sq, with which weak directions inside a strong row are found late, and the least eigenvalue, with which the
        # batch's noise turns strong ones. And a random direction orthonormal to all, for what they leave out.
        random = jax.random.normal(key, (1 + self._size, block.shape[1]), block.dtype)
        sizes = jax.lax.dynamic_slice(columns, (0 * begin, begin), (self._size, self._size)).diagonal()
        between = jnp.sqrt(jnp.maximum(sizes * values[0], 0))
        turned = _unit(between[:, None] * block + weight * images, random[1:])
        mine = jnp.arange(self.values.size, dtype=jnp.int32) // self._size == begin // self._size
        *directions, probe = self._orthonormal(jnp.concatenate([turned, random[:1]]), ~mine)
        rest = probe @ covariance.matvec(probe)
        return jnp.stack(directions), projected, jnp.maximum(values, 0), vectors, blend(self.rest, rest, rest_weight)

    def _orthonormal(self, rows: Array, others: Array) -> list[Vector]:
        """`rows` made orthonormal to those rows of the basis and to each other, twice for rounding's sake."""
        for _ in range(2):
            rows = rows - jnp.where(others[None], rows @ self.basis.T, 0) @ self.basis
            done: list[Vector] = []
            for row in rows:
                for before in done:
                    row = row - (before @ row) * before
                done.append(row / jnp.linalg.norm(row))
            rows = jnp.stack(done)
        return done

    def _begin(self) -> Array:
        """The first row of the block whose turn it is."""
        return self._size * (self.renewals.astype(jnp.int32) % self._blocks)

    def _block(self) -> Array:
        return jax.lax.dynamic_slice_in_dim(self.basis, self._begin(), self._size)

    def _with(self, renewals: Scalar, block: Array, *others: Array) -> "LowRank":
        return LowRank(renewals, jax.lax.dynamic_update_slice_in_dim(self.basis, block, self._begin(), 0), *others)

    @property
    def _size(self) -> int:
        return min(BLOCK, self.values.size)

    @property
    def _blocks(self) -> int:
        return self.values.size // self._size

    def apply(self, functions: Sequence[Function], v: Vector) -> list[Vector]:
        inside = (self.basis @ v) @ self.vectors
        beyond = [f(self.rest) for f in functions]
        scaled = jnp.stack([(f(self.values) - r) * inside for f, r in zip(functions, beyond, strict=True)])
        added = (scaled @ self.vectors.T) @ self.basis
        return [r * v + a for r, a in zip(beyond, added, strict=True)]

    def largest(self) -> Scalar:
        return self.values[-1]

    def middle(self) -> Scalar:
        return self.rest

    def unseen(self) -> Scalar:
        """The lower quartile of those inside: the least may be of a direction that is not found yet."""
        return self.values[self.values.size // 4]


def _unit(rows: Array, instead: Array) -> Array:
    """Each row at length one; where there is nothing, the other's."""
    sizes = jnp.linalg.norm(rows, axis=1, keepdims=True)
    return jnp.where(sizes > 0, rows / jnp.where(sizes > 0, sizes, 1), instead)

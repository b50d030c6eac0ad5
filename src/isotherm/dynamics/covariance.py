"""The covariance S of the force, remembered over batches, and functions of it applied to a vector.

An estimate is an average Ŝ ← Ŝ + κ(S − Ŝ) over batches, with κ = 1/t for all of them alike (`running`) or a memory of
the last w or so (`windowed`). `Estimate` says what it can do; it comes in three sizes:

    Dense      Ŝ itself and its eigen-decomposition; d² memory
    LowRank    its k leading eigenvectors, and the mean of the remaining eigenvalues in all other directions; kd memory
    Diagonal   its diagonal
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

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


@runtime_checkable
class Estimate(Protocol):
    """Ŝ, as a pytree of arrays that is part of a sampler's state."""

    @classmethod
    def first(cls, covariance: Covariance, position: Vector, rank: int, key: RandomKey) -> "Estimate":
        """From one batch; `rank` is how many directions a low-rank estimate keeps."""
        ...

    @classmethod
    def parts(cls, d: int, rank: int) -> int:
        """How many renewals it takes to renew all of it."""
        ...

    def renewed(self, due: Condition, covariance: Covariance, window: Number, key: RandomKey) -> "Estimate":
        """With another batch in the average; unchanged unless `due`, a condition that is the same for all chains."""
        ...

    def apply(self, functions: Sequence[Function], v: Vector) -> list[Vector]:
        """f(Ŝ)v for each function f of the eigenvalues."""
        ...

    def largest(self) -> Scalar:
        """The largest eigenvalue."""
        ...

    def middle(self) -> Scalar:
        """An eigenvalue from the middle of the spectrum: what "auto" takes the step size from."""
        ...

    def unseen(self) -> tuple[Scalar, Scalar]:
        """Of the directions that have no eigenvalue of their own: how large one may be, and their mean."""
        ...


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
        return [self.vectors @ (f(self.values) * inside) for f in functions]

    def largest(self) -> Scalar:
        return self.values[-1]

    def middle(self) -> Scalar:
        return self.values[self.values.size // 2]

    def unseen(self) -> tuple[Scalar, Scalar]:
        return jnp.zeros_like(self.renewals), jnp.zeros_like(self.renewals)


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

    def unseen(self) -> tuple[Scalar, Scalar]:
        return jnp.max(self.values), jnp.zeros_like(self.renewals)


class LowRank(NamedTuple):
    """Ŝ = QᵀTQ + ρ(I − QᵀQ), the rows of Q orthonormal. They are renewed in turn, a block at a time: a product with
    this batch's S gives a column of T and where outside the span its row should turn to, and one more gives ρ.

    One row follows another, each in place, so that little memory is needed beside Q; and a row is computed whether or
    not it is due and then chosen, since a branch would copy all of Q."""

    renewals: Scalar
    basis: Float[Array, "k d"]
    projected: Float[Array, "k k"]
    values: Float[Array, " k"]
    vectors: Float[Array, "k k"]
    rest: Scalar

    @classmethod
    def first(cls, covariance: Covariance, position: Vector, rank: int, key: RandomKey) -> "LowRank":
        """Random directions, and two rounds of renewals with this one batch."""
        d, dtype = position.size, position.dtype
        if d < 2:
            raise ValueError('covariance="low_rank" needs at least 2 parameters, got 1; use "dense"')
        k, blocks = cls._rank(d, rank), cls.parts(d, rank)
        zero, square = jnp.zeros((), dtype), jnp.zeros((k, k), dtype)
        nothing = cls(zero, jnp.zeros((k, d), dtype), square, jnp.zeros((k,), dtype), jnp.eye(k, dtype=dtype), zero)
        random_key, renewal_key = jax.random.split(key)

        def fill(i: Array, estimate: LowRank) -> LowRank:
            random = jax.random.normal(jax.random.fold_in(random_key, i), (d,), dtype)
            row = estimate._orthonormal(random, estimate.basis @ random)
            return estimate._replace(basis=estimate.basis.at[i].set(row))

        def renew(i: Array, estimate: LowRank) -> LowRank:
            key = jax.random.fold_in(renewal_key, i)
            return estimate._renewed(jnp.array(True), covariance, zero + 1, zero + 1, key)

        random_basis = jax.lax.fori_loop(0, k, fill, nothing)
        return jax.lax.fori_loop(0, 2 * blocks, renew, random_basis)._replace(renewals=jnp.full_like(zero, blocks))

    @staticmethod
    def _rank(d: int, rank: int) -> int:
        k = min(rank, d - 1)
        return k - k % min(BLOCK, k)

    @classmethod
    def parts(cls, d: int, rank: int) -> int:
        return max(1, cls._rank(d, rank) // BLOCK)

    def renewed(self, due: Condition, covariance: Covariance, window: Number, key: RandomKey) -> "LowRank":
        visits = jnp.floor(self.renewals / self._blocks) + 1  # of this block
        return self._renewed(due, covariance, windowed(visits, window), windowed(self.renewals + 1, window), key)

    def _renewed(
        self, due: Condition, covariance: Covariance, weight: Scalar, rest_weight: Scalar, key: RandomKey
    ) -> "LowRank":
        begin = self._size * (self.renewals.astype(jnp.int32) % self._blocks)

        def row(i: Array, estimate: LowRank) -> LowRank:
            return estimate._turned(due, begin + i, covariance, weight)

        after = jax.lax.fori_loop(0, self._size, row, self)
        values, vectors = jnp.linalg.eigh((after.projected + after.projected.T) / 2)
        random = jax.random.normal(key, self.basis.shape[1:], self.basis.dtype)
        probe = after._orthonormal(random, after.basis @ random)
        rest = blend(self.rest, probe @ covariance.matvec(probe), rest_weight)
        return LowRank(
            self.renewals + due.astype(self.renewals.dtype),
            after.basis,
            after.projected,
            jnp.where(due, jnp.maximum(values, 0), self.values),
            jnp.where(due, vectors, self.vectors),
            jnp.where(due, rest, self.rest),
        )

    def _turned(self, due: Condition, i: Array, covariance: Covariance, weight: Scalar) -> "LowRank":
        """Row i by one step of subspace iteration, weighted as this batch is: q ← sq + κSq, orthonormal to other rows.

        s is the geometric mean of q·Sq and the least eigenvalue. With q·Sq alone, a row that holds a strong direction
        takes long to turn to a weak one; with the least eigenvalue alone, the batch's noise turns strong directions.
        """
        q = self.basis[i]
        image = covariance.matvec(q)
        inside = self.basis @ image
        column = jnp.where(due, blend(self.projected[i], inside, weight), self.projected[i])
        others = jnp.arange(self.values.size, dtype=i.dtype) != i
        turned = jnp.sqrt(jnp.maximum(column[i] * self.values[0], 0)) * q + weight * image
        turns = due & (turned @ turned > 0)
        new = self._orthonormal(jnp.where(turns, turned, q), jnp.where(others & turns, weight * inside, 0), others)
        return self._replace(
            basis=self.basis.at[i].set(jnp.where(due, new, q)),
            projected=self.projected.at[i].set(column).at[:, i].set(column),
        )

    def _orthonormal(self, row: Vector, overlap: Array, others: Array | bool = True) -> Vector:
        """`row` without its `overlap` with those rows of the basis; once more for rounding's sake."""
        row = row - overlap @ self.basis
        row = row / jnp.linalg.norm(row)
        row = row - jnp.where(others, self.basis @ row, 0) @ self.basis
        return row / jnp.linalg.norm(row)

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

    def unseen(self) -> tuple[Scalar, Scalar]:
        """The lower quartile of those inside: the least may be of a direction that is not found yet."""
        return self.values[self.values.size // 4], self.rest

"""The covariance S of the force, remembered over batches, and functions of it applied to a vector.

An estimate is an average Ŝ ← Ŝ + κ(S − Ŝ) over batches, with κ = 1/t for all of them alike (`running`) or a memory of
the last w or so (`windowed`). Three sizes behind one interface:

    Dense      Ŝ itself and its eigen-decomposition; d² memory
    LowRank    its k leading eigenvectors, and the mean of the remaining eigenvalues in all other directions; kd memory
    Diagonal   its diagonal

Each has `first(covariance, position, rank, key)`, `renewed(covariance, window, key)`, `apply(functions, v)` for f(Ŝ)v
and tells its `largest()` eigenvalue, one from its `middle()`, and how large one may be in an `unseen()` direction.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from isotherm.posterior import Covariance
from isotherm.types import Matrix, Number, RandomKey, Scalar, Vector

Function = Callable[[Float[Array, "..."]], Float[Array, "..."]]

BLOCK = 4  # how many of its directions a low-rank estimate renews at a time


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

    def renewed(self, covariance: Covariance, window: Number, key: RandomKey) -> "Dense":
        count = self.renewals + 1
        return self._of(count, blend(self.average, covariance.dense(), windowed(count, window)))

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

    @classmethod
    def first(cls, covariance: Covariance, position: Vector, rank: int, key: RandomKey) -> "Diagonal":
        values = covariance.diagonal()
        return cls(jnp.ones((), values.dtype), values)

    def renewed(self, covariance: Covariance, window: Number, key: RandomKey) -> "Diagonal":
        count = self.renewals + 1
        return Diagonal(count, blend(self.values, covariance.diagonal(), windowed(count, window)))

    def apply(self, functions: Sequence[Function], v: Vector) -> list[Vector]:
        return [f(self.values) * v for f in functions]

    def largest(self) -> Scalar:
        return jnp.max(self.values)

    def middle(self) -> Scalar:
        return jnp.median(self.values)

    def unseen(self) -> Scalar:
        return jnp.max(self.values)


class LowRank(NamedTuple):
    """Ŝ = Σ_j λ_j q_j q_jᵀ + ρ(I − Σ_j q_j q_jᵀ). The q_j are renewed a block at a time, in turn: one step of
    subspace iteration with deflation against the others, at BLOCK + 1 products with this batch's S."""

    renewals: Scalar
    basis: Float[Array, "k d"]
    values: Float[Array, " k"]
    rest: Scalar

    @classmethod
    def first(cls, covariance: Covariance, position: Vector, rank: int, key: RandomKey) -> "LowRank":
        """Two rounds of renewals with this one batch, from random directions."""
        d, dtype = position.size, position.dtype
        if d < 2:
            raise ValueError('covariance="low_rank" needs at least 2 parameters, got 1; use "dense"')
        k = min(rank, d - 1)
        k -= k % min(BLOCK, k)
        key, start = jax.random.split(key)
        basis = jnp.linalg.qr(jax.random.normal(start, (d, k), dtype))[0].T
        zero = jnp.zeros((), dtype)
        guess = cls(zero, basis, jnp.zeros((k,), dtype), zero)

        def renew(i: Array, estimate: LowRank) -> LowRank:
            return estimate._renewed(covariance, zero + 1, zero + 1, jax.random.fold_in(key, i))

        found = jax.lax.fori_loop(0, 2 * guess._blocks, renew, guess)
        return found._replace(renewals=jnp.full_like(zero, guess._blocks))

    def renewed(self, covariance: Covariance, window: Number, key: RandomKey) -> "LowRank":
        visits = jnp.floor(self.renewals / self._blocks) + 1  # of this block
        return self._renewed(covariance, windowed(visits, window), windowed(self.renewals + 1, window), key)

    @property
    def _block(self) -> int:
        return min(BLOCK, self.values.size)

    @property
    def _blocks(self) -> int:
        return self.values.size // self._block

    def _renewed(self, covariance: Covariance, weight: Scalar, rest_weight: Scalar, key: RandomKey) -> "LowRank":
        begin = self._block * (self.renewals.astype(jnp.int32) % self._blocks)
        block = jax.lax.dynamic_slice_in_dim(self.basis, begin, self._block)
        values = jax.lax.dynamic_slice_in_dim(self.values, begin, self._block)
        images = blend(values[:, None] * block, jax.lax.map(covariance.matvec, block), weight)
        quotients, rotation = jnp.linalg.eigh(_symmetric(block @ images.T))

        others = jax.lax.dynamic_update_slice_in_dim(self.basis, jnp.zeros_like(block), begin, 0)
        images = rotation.T @ images
        for _ in range(2):
            images = images - (images @ others.T) @ others
            images = jnp.linalg.qr(images.T)[0].T
        basis = jax.lax.dynamic_update_slice_in_dim(self.basis, images, begin, 0)

        probe = jax.random.normal(key, basis.shape[1:], basis.dtype)
        probe = probe - (basis @ probe) @ basis
        rest = probe @ covariance.matvec(probe) / (probe @ probe)
        return LowRank(
            self.renewals + 1,
            basis,
            jax.lax.dynamic_update_slice_in_dim(self.values, jnp.maximum(quotients, 0), begin, 0),
            blend(self.rest, rest, rest_weight),
        )

    def apply(self, functions: Sequence[Function], v: Vector) -> list[Vector]:
        inside = self.basis @ v
        beyond = [f(self.rest) for f in functions]
        added = jnp.stack([(f(self.values) - r) * inside for f, r in zip(functions, beyond, strict=True)]) @ self.basis
        return [r * v + a for r, a in zip(beyond, added, strict=True)]

    def largest(self) -> Scalar:
        return jnp.max(self.values)

    def middle(self) -> Scalar:
        return self.rest

    def unseen(self) -> Scalar:
        return jnp.min(self.values)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2

"""Sums over rows of the log-likelihood and its derivatives, a chunk of rows at a time.

All are taken at the origin of some coordinates θ = θ̂ + Lz and are derivatives by z. A chunk is summed in the precision
of the parameters, the chunks in float64. Chunks have one size, whatever the rows, so that each sum is compiled once.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.batches import pad
from isotherm.data.on_disk import host, on_disk
from isotherm.data.processes import cores
from isotherm.lib.progress import Passes
from isotherm.lib.types import Array, Batch, Float, Matrix, Scalar, Vector
from isotherm.targets.target import Coordinates, Target

CHUNK_NUMBERS = 2**22  # of a chunk's intermediate arrays, about: they stay small beside the data
LEAST_CHUNK, LARGEST_CHUNK = 2**6, 2**13  # rows
PROBES = 32  # random vectors that leverages are estimated from, with a relative error of about √(2/32) = 1/4
READERS = 2  # threads beyond one a core, as some wait for the disk

T = TypeVar("T")


class RowSums:
    """Sums over the rows of `data`, each counted `weights` times (once, if there are none), times `scale`.

    `passes` counts the rows that were summed. `shared`: where there are several processes, these are the rows of this
    one, and sums are over those of all.
    """

    def __init__(
        self,
        target: Target,
        data: Batch,
        weights: np.ndarray | None = None,
        scale: float = 1.0,
        passes: Passes | None = None,
        shared: bool = False,
    ) -> None:
        self.target, self.scale, self.passes, self.shared = target, scale, passes, shared
        self.data = jax.tree.map(host, data)
        self.rows = len(jax.tree.leaves(data)[0])
        self.weights = np.broadcast_to(np.float32(1), self.rows) if weights is None else weights
        self.row_numbers = max(1, sum(math.prod(leaf.shape[1:]) for leaf in jax.tree.leaves(self.data)))

    def gradient(self, at: Coordinates) -> tuple[float, np.ndarray]:
        """Return Σℓ_i and LᵀΣ∇ℓ_i."""
        value, gradient = 0.0, np.zeros(len(at.origin))
        for part, slope in self._chunks(_gradient, at, 1):
            value += float(part)
            gradient += np.asarray(slope, np.float64)
        if self.shared:
            summed = processes.total(np.array([value, *gradient]))
            value, gradient = float(summed[0]), summed[1:]
        return self.scale * value, self.scale * gradient

    def hessian(self, at: Coordinates) -> np.ndarray:
        """Return LᵀΣ∇²ℓ_i L."""
        d = len(at.origin)
        total = np.zeros((d, d))
        for part in self._chunks(_hessian, at, d):
            total += np.asarray(part, np.float64)
        if self.shared:
            total = processes.total(total)
        return self.scale * (total + total.T) / 2

    def leverages(self, at: Coordinates, probes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the leverage of each row, |tr Lᵀ∇²ℓ_iL|, or a bit more, and ‖Lᵀ∇ℓ_i‖²; as means over random vectors v
        of unit variance of |vᵀLᵀ∇²ℓ_iLv| and (vᵀLᵀ∇ℓ_i)²."""
        vectors = probes.astype(at.origin.dtype)
        bends, slopes, first = *(np.empty(self.rows, at.origin.dtype) for _ in range(2)), 0
        for some_bends, some_slopes in self._chunks(_leverages, at, probes.shape[1], vectors):
            last = min(first + len(some_bends), self.rows)
            bends[first:last], slopes[first:last] = some_bends[: last - first], some_slopes[: last - first]
            first = last
        return (processes.joined(bends), processes.joined(slopes)) if self.shared else (bends, slopes)

    def _chunks(self, function: Callable[..., T], at: Coordinates, width: int, *more: np.ndarray) -> Iterator[T]:
        """Yield what `function` makes of each chunk, in order. The last is filled up with rows that count nothing."""
        size = max(LEAST_CHUNK, min(LARGEST_CHUNK, CHUNK_NUMBERS // max(width, self.row_numbers)))
        x64 = jax.dtypes.canonicalize_dtype(np.int64) == np.int64

        def one(first: int) -> T:
            batch = jax.tree.map(lambda column: pad(column[first : first + size], size), self.data)
            weights = np.zeros(size, at.origin.dtype)
            weights[: self.rows - first] = self.weights[first : first + size]
            with jax.enable_x64(x64):  # this setting of JAX is per thread
                made: T = jax.block_until_ready(function(self.target, at, batch, weights, *more))
                return made

        # Threads that wait for the disk leave the cores to the others.
        with ThreadPoolExecutor(cores() + (READERS if on_disk(self.data) else 0)) as pool:
            for first, made in zip(range(0, self.rows, size), pool.map(one, range(0, self.rows, size)), strict=True):
                if self.passes is not None:
                    rows = min(size, self.rows - first)
                    self.passes.add(rows * self.passes.rows // self.rows if self.shared else rows)
                yield made


def _total(target: Target, at: Coordinates, batch: Batch, weights: Float[Array, " n"], z: Vector) -> Scalar:
    values = jax.vmap(target.log_likelihood, in_axes=(None, 0))(target.unravel(at.flat(z)), batch)
    return jnp.sum(weights.astype(values.dtype) * values)


@jax.jit
def _gradient(target: Target, at: Coordinates, batch: Batch, weights: Float[Array, " n"]) -> tuple[Scalar, Vector]:
    return jax.value_and_grad(partial(_total, target, at, batch, weights))(jnp.zeros_like(at.origin))


@jax.jit
def _hessian(target: Target, at: Coordinates, batch: Batch, weights: Float[Array, " n"]) -> Matrix:
    gradient = jax.grad(partial(_total, target, at, batch, weights))
    _, product = jax.linearize(gradient, jnp.zeros_like(at.origin))
    hessian: Matrix = jax.vmap(product, in_axes=1, out_axes=1)(jnp.eye(len(at.origin), dtype=at.origin.dtype))
    return hessian


@jax.jit
def _leverages(
    target: Target, at: Coordinates, batch: Batch, weights: Float[Array, " n"], probes: Float[Array, "d k"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    def each(z: Vector) -> Float[Array, " n"]:
        return jax.vmap(target.log_likelihood, in_axes=(None, 0))(target.unravel(at.flat(z)), batch)

    def along(v: Vector) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        def slope(z: Vector) -> Float[Array, " n"]:
            slopes: Float[Array, " n"] = jax.jvp(each, (z,), (v,))[1]
            return slopes

        first, second = jax.jvp(slope, (jnp.zeros_like(v),), (v,))
        return jnp.abs(second), first**2

    bends, slopes = jax.vmap(along, in_axes=1, out_axes=1)(probes)
    return bends.mean(axis=1), slopes.mean(axis=1)


@jax.jit
def prior_gradient(target: Target, at: Coordinates) -> tuple[Scalar, Vector]:
    """Return log π and its gradient by z."""
    return jax.value_and_grad(partial(_log_prior, target, at))(jnp.zeros_like(at.origin))


@jax.jit
def prior_hessian(target: Target, at: Coordinates) -> Matrix:
    hessian: Matrix = jax.hessian(partial(_log_prior, target, at))(jnp.zeros_like(at.origin))
    return hessian


def _log_prior(target: Target, at: Coordinates, z: Vector) -> Scalar:
    return target.log_prior(target.unravel(at.flat(z)))

"""Where minibatches come from: data in memory, rows picked at random inside the compiled loop."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import threefry
from isotherm.data.alias_table import AliasTable
from isotherm.data.on_disk import Column
from isotherm.lib import arguments
from isotherm.lib.types import Array, Batch, Float, Int, RandomKey

LINE = 64  # bytes of a cache line
BEYOND_CACHE = 2**24  # bytes beyond which a column is in no core's cache
MOST_FAST = 2**30  # rows up to which `threefry.integers_below` can number them
LARGEST = 2**20  # rows, up to which a batch drawn with replacement may be larger than the data


def placed(column: Any) -> Array | Column:
    """A column on the device, or, if it is on disk, in the dtype that the device will see. On a CPU a large one goes to
    memory that NumPy allocates, which has huge pages: with fewer TLB misses, a step on 10,000,000 rows takes a fifth
    less."""
    if isinstance(column, Column):
        return column.astype(jax.dtypes.canonicalize_dtype(column.dtype))
    if jax.default_backend() != "cpu" or isinstance(column, jax.Array):
        return jnp.asarray(column)
    dtype = jax.dtypes.canonicalize_dtype(np.asarray(column).dtype)
    size = np.size(column) * dtype.itemsize
    if size < BEYOND_CACHE or dtype.kind not in "fiu":
        return jnp.asarray(column)
    array = aligned(np.shape(column), dtype)
    array[...] = column
    return jax.dlpack.from_dlpack(array)


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory aligned to a cache line: only such memory JAX takes over without a copy."""
    size = math.prod(shape) * dtype.itemsize
    room = np.empty(size + LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    return room[begin : begin + size].view(dtype).reshape(shape)


@dataclass(frozen=True)
class Batches:
    """Batches of `size` out of `population` rows, with or without replacement within a batch."""

    population: int
    size: int
    replace: bool = True

    def __post_init__(self) -> None:
        size = arguments.integer("batch_size", self.size, 1, max(self.population, LARGEST))
        object.__setattr__(self, "size", size)  # an int even where NumPy's was given
        if not self.replace and self.size > self.population:
            raise ValueError(
                f"batch_size must be at most the number of examples, {self.population}, when drawing without "
                f"replacement, got {self.size}; lower it or set replace=True"
            )

    def larger(self, rows: int, weighted: bool = False) -> "Batches":
        """Batches of at least so many rows, or of all there are; if they are weighted, drawn in the same way."""
        if max(rows, self.size) < self.population or weighted:
            return Batches(self.population, max(rows, self.size))
        return Batches(self.population, self.population, replace=False)

    def take(self, key: RandomKey, data: Batch) -> Batch:
        """A batch of `data`; all of it, in order, when the batch is everything and nothing is replaced."""
        if not self.replace and self.size == self.population:
            return data
        return gathered(self.rows(key), data)

    def take_weighted(self, key: RandomKey, data: Batch, table: AliasTable) -> tuple[Batch, Float[Array, " n"]]:
        """A batch with the probabilities of `table`, and how often each of its rows counts."""
        rows = self.weighted_rows(key, table)
        return gathered(rows, data), table.weights[rows]

    def weighted_rows(self, key: RandomKey, table: AliasTable) -> Int[Array, " n"]:
        rows_key, alias_key = jax.random.split(key)
        return table.picked(alias_key, self.rows(rows_key))

    def taken_rows(self, key: RandomKey, table: AliasTable | None) -> Int[Array, " n"]:
        """The numbers of the rows that `take`, or `take_weighted` if there is a table, takes."""
        if table is not None:
            return self.weighted_rows(key, table)
        if not self.replace and self.size == self.population:
            return jnp.arange(self.population, dtype=jnp.int32)
        return self.rows(key)

    def rows(self, key: RandomKey) -> Int[Array, " n"]:
        if self.replace and 1 < self.population < MOST_FAST and jax.random.key_impl(key) == threefry.UNROLLED:
            return threefry.integers_below(key, self.size, self.population)
        if self.replace:
            return jax.random.randint(key, (self.size,), 0, self.population)
        if 4 * self.size > self.population:  # so many repeats would be drawn anew that a permutation is cheaper
            return jax.random.permutation(key, self.population)[: self.size]
        return self._distinct(key)

    def _distinct(self, key: RandomKey) -> Int[Array, " n"]:
        """The first n distinct of a sequence of independent draws: a uniform subset, at a cost independent of N."""

        def repeated(rows: Array) -> Array:
            return jnp.concatenate([jnp.zeros((1,), bool), rows[1:] == rows[:-1]])

        def redraw(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            key, rows = carry
            key, fresh = jax.random.split(key)
            new = jax.random.randint(fresh, (self.size,), 0, self.population)
            return key, jnp.sort(jnp.where(repeated(rows), new, rows))

        key, first = jax.random.split(key)
        rows = jnp.sort(jax.random.randint(first, (self.size,), 0, self.population))
        return jax.lax.while_loop(lambda carry: repeated(carry[1]).any(), redraw, (key, rows))[1]


class Requests(ABC):
    """Stands for data that are not in memory, while a step is traced: it answers one request for a batch after the
    other (run/row_requests.py)."""

    @abstractmethod
    def answer(
        self, key: RandomKey, batches: Batches, table: AliasTable | None
    ) -> tuple[Batch, Float[Array, " n"] | None]:
        """A batch, and how often each of its rows counts; None if all count alike."""


def filled(rows: np.ndarray, size: int) -> np.ndarray:
    """`rows`, with the last repeated up to `size`: blocks of one shape are compiled once."""
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows


def gathered(rows: Int[Array, " n"], data: Batch) -> Batch:
    """These rows of every column."""
    return jax.tree.map(lambda column: column[prefetched(rows, column) if waits_for_memory(column) else rows], data)


def waits_for_memory(column: Array) -> bool:
    """Whether a gather spends much of its time waiting for memory: the column is larger than a core's cache. To gather
    a number or two a row is as quick as a prefetch, and of long rows the hardware prefetches most itself
    (benchmarks/gather.py)."""
    row = column.nbytes // column.shape[0]
    return jax.default_backend() == "cpu" and column.nbytes >= BEYOND_CACHE and LINE // 4 <= row <= 8 * LINE


def prefetched(rows: Int[Array, " n"], column: Array) -> Int[Array, " n"]:
    """`rows`, after a prefetch: each row's cache lines are touched first, so that their loads overlap. The gather
    itself copies number by number and waits for each row in turn."""
    flat = column.reshape(column.shape[0], -1)
    touched = flat[rows[:, None], jnp.arange(0, flat.shape[1], LINE // column.dtype.itemsize)[None, :]]
    # What is added is always 0, but XLA does not know that, so it cannot drop the loads. The barrier keeps them out of
    # the sum, in which each load would wait for the one before it.
    touched, rows = jax.lax.optimization_barrier((touched, rows))
    return rows + ((touched > 0).sum() > touched.size).astype(rows.dtype)

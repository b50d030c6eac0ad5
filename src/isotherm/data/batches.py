"""Where minibatches come from: data in memory, rows picked at random inside the compiled loop."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from isotherm.data import threefry
from isotherm.data.alias_table import AliasTable
from isotherm.data.on_disk import Column
from isotherm.lib import arguments
from isotherm.lib.types import Array, Batch, Float, Int, RandomKey

LINE = 64  # bytes of a cache line
CACHE_BYTES = 2**24  # of a column, from which on it is in no core's cache
FAST_ROWS = 2**30  # up to which `threefry.integers_below` can number them
BATCH_ROWS = 2**20  # up to which a batch drawn with replacement may be larger than the data


def place(column: ArrayLike | Column) -> Array | Column:
    """Put a column on the device, or, if it is on disk, in the dtype that the device will see.

    On a CPU a large one goes to memory that NumPy allocates, which has huge pages: with fewer TLB misses, a step on
    10,000,000 rows takes a fifth less."""
    if isinstance(column, Column):
        return column.astype(jax.dtypes.canonicalize_dtype(column.dtype))
    if jax.default_backend() != "cpu" or isinstance(column, jax.Array):
        return jnp.asarray(column)
    dtype = jax.dtypes.canonicalize_dtype(np.asarray(column).dtype)
    size = np.size(column) * dtype.itemsize
    if size < CACHE_BYTES or dtype.kind not in "fiu":
        return jnp.asarray(column)
    array = allocate(np.shape(column), dtype)
    array[...] = column
    on_device: Array = jax.dlpack.from_dlpack(array)
    return on_device


def allocate(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return memory that begins with a cache line: only such memory JAX takes over without a copy."""
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
        size = arguments.integer("batch_size", self.size, 1, max(self.population, BATCH_ROWS))
        object.__setattr__(self, "size", size)  # an int even where NumPy's was given
        if not self.replace and self.size > self.population:
            raise ValueError(
                f"batch_size must be at most the number of examples, {self.population}, when drawing without "
                f"replacement, got {self.size}; lower it or set replace=True"
            )

    @property
    def is_everything(self) -> bool:
        """Whether a batch is all rows, each once."""
        return not self.replace and self.size == self.population

    def resized(self, rows: int, weighted: bool = False) -> "Batches":
        """Return batches of `rows` rows, or of all there are if these are no more; weighted ones are always drawn."""
        if rows < self.population or weighted:
            return Batches(self.population, min(rows, max(self.population, BATCH_ROWS)))
        return Batches(self.population, self.population, replace=False)

    def take(
        self, key: RandomKey, data: Batch, table: AliasTable | None = None
    ) -> tuple[Batch, Float[Array, " n"] | None]:
        """Return a batch of `data`, and how often each of its rows counts, if they have the probabilities of `table`.
        All of the data, in order, if the batch is everything."""
        if self.is_everything:
            return data, None
        rows = self.row_numbers(key, table)
        return gather(rows, data), None if table is None else table.weights[rows]

    def row_numbers(self, key: RandomKey, table: AliasTable | None = None) -> Int[Array, " n"]:
        """Return the numbers of the rows that `take` takes."""
        if self.is_everything:
            return jnp.arange(self.population, dtype=jnp.int32)
        if table is None:
            return self.rows(key)
        rows_key, alias_key = jax.random.split(key)
        return table.pick(alias_key, self.rows(rows_key))

    def rows(self, key: RandomKey) -> Int[Array, " n"]:
        """Return the numbers of rows with equal probabilities."""
        if self.replace and 1 < self.population < FAST_ROWS and jax.random.key_impl(key) == threefry.UNROLLED:
            return threefry.integers_below(key, self.size, self.population)
        if self.replace:
            return jax.random.randint(key, (self.size,), 0, self.population)
        if 4 * self.size > self.population:  # so many repeats would be drawn anew that a permutation is cheaper
            return jax.random.permutation(key, self.population)[: self.size]
        return self._distinct(key)

    def _distinct(self, key: RandomKey) -> Int[Array, " n"]:
        """Return the first n distinct of a sequence of draws: a uniform subset, at a cost independent of N."""

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


class ExtraBatch(NamedTuple):
    """A batch besides that of the force: its number of rows (all there are, if there are fewer), and the first step at
    which it is not used any more."""

    rows: int
    until: int = 2**31 - 1


def pad(rows: np.ndarray, size: int) -> np.ndarray:
    """Return `rows`, with the last repeated up to `size`: blocks of one shape are compiled once."""
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows


def gather(rows: Int[Array, " n"], data: Batch) -> Batch:
    """Return these rows of every column."""
    return jax.tree.map(lambda column: column[prefetch(rows, column) if waits_for_memory(column) else rows], data)


def waits_for_memory(column: Array) -> bool:
    """Return whether a gather spends much of its time waiting for memory: the column is larger than a core's cache.
    To gather a number or two a row is as quick as a prefetch, and of long rows the hardware prefetches most itself
    (benchmarks/gather.py)."""
    row = column.nbytes // column.shape[0]
    return jax.default_backend() == "cpu" and column.nbytes >= CACHE_BYTES and LINE // 4 <= row <= 8 * LINE


def prefetch(rows: Int[Array, " n"], column: Array) -> Int[Array, " n"]:
    """Return `rows`, after each row's cache lines were touched, so that their loads overlap. The gather itself copies
    number by number and waits for each row in turn."""
    flat = column.reshape(column.shape[0], -1)
    touched = flat[rows[:, None], jnp.arange(0, flat.shape[1], LINE // column.dtype.itemsize)[None, :]]
    # What is added is always 0, but XLA does not know that, so it cannot drop the loads. The barrier keeps them out of
    # the sum, in which each load would wait for the one before it.
    touched, rows = jax.lax.optimization_barrier((touched, rows))
    zero = ((touched > 0).sum() > touched.size).astype(rows.dtype)
    return jnp.add(rows, zero)

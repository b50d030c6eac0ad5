"""Where minibatches come from: data in memory, rows picked at random inside the compiled loop.

With unequal probabilities rows are drawn at a cost that does not depend on how many there are (Walker 1977): of N rows,
pick one with equal probabilities and keep it with the probability that the table has for it; otherwise take its alias.
Row i is then picked with probability p_i, and counts 1/(Np_i) times, so that sums over rows are estimated without bias.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from isotherm.data import threefry
from isotherm.data.on_disk.column import Column
from isotherm.lib import arguments
from isotherm.lib.types import Array, Batch, Float, Int, Int32, RandomKey, UInt32

LINE = 64  # bytes of a cache line
CACHE_BYTES = 2**24  # of a column, from which on it is in no core's cache
FAST_ROWS = 2**30  # up to which `threefry.integers_below` can number them
BATCH_ROWS = 2**20  # up to which a batch drawn with replacement may be larger than the data

# Row probabilities
THRESHOLD_ONE = 2.0**32  # thresholds are probabilities in units of 2⁻³²
BLOCK_ROWS = 2**16


class AliasTable(NamedTuple):
    thresholds: UInt32[Array, " N"]
    aliases: Int32[Array, " N"]
    weights: Float[Array, " N"]  # 1/(Np_i)

    def pick(self, key: RandomKey, rows: Int32[Array, " n"]) -> Int32[Array, " n"]:
        """Return rows with the table's probabilities, from rows with equal ones."""
        chance = jax.random.bits(key, rows.shape, jnp.uint32)
        return jnp.where(chance < self.thresholds[rows], rows, self.aliases[rows])


def make_table(probabilities: ArrayLike, dtype: DTypeLike = np.float32, overwrite: bool = False) -> AliasTable:
    """Return the table of N positive numbers, of any sum. `overwrite`: an array of float64 may be overwritten.

    A row with more than its share 1/N fills up those with less, in order: small row k takes what it lacks from the
    first large row whose excess is not used up by then, and a large row that has given too much takes from the next
    large one. Both partners are found by a binary search in the cumulative sums of what rows lack and have in excess.
    """
    share = np.array(probabilities, np.float64, copy=None if overwrite else True)
    if share.ndim != 1 or not share.size:
        raise ValueError(f"probabilities must be one number a row, got shape {share.shape}")
    good = np.isfinite(share) & (share > 0)
    if bad := int((~good).sum()):
        first = int(np.argmin(good))
        raise ValueError(
            f"probabilities must be positive and finite, got {share[first]} for row {first} and {bad - 1} others like "
            "it; a row that is never drawn is left out of the posterior"
        )
    share *= share.size / share.sum()
    weights = np.divide(1.0, share, out=np.empty(share.size, dtype), casting="same_kind")
    full = min(1.0, float(share.max()))  # rounding may leave all a bit below 1
    small, large = (np.flatnonzero(which).astype(np.int32) for which in (share < full, share >= full))
    del good
    lacking, excess = share[small], share[large]
    np.subtract(1, lacking, out=lacking)
    excess -= 1
    for each in (lacking, excess):
        np.cumsum(each, out=each)
    aliases, last = np.arange(share.size, dtype=np.int32), large.size - 1
    if small.size:
        for some in blocks(small.size):
            before = np.concatenate([lacking[some.start - 1 : some.start] if some.start else [0.0], lacking[some][:-1]])
            aliases[small[some]] = large[np.minimum(np.searchsorted(excess, before, side="right"), last)]
        share[large] = 1
        for some in blocks(last):
            spent = np.searchsorted(lacking, excess[some], side="right")  # the small row that uses up a large one
            before = np.where(spent > 0, lacking[spent - 1], 0)
            given = np.flatnonzero((spent < small.size) & (before < excess[some]))  # else it gives just its excess
            row = some.start + given
            share[large[row]] = 1 + excess[row] - lacking[spent[given]]
            aliases[large[row]] = large[row + 1]
    del lacking, excess, small, large
    thresholds = np.empty(share.size, np.uint32)
    for some in blocks(share.size):
        thresholds[some] = np.minimum(np.clip(share[some], 0, 1) * THRESHOLD_ONE, THRESHOLD_ONE - 1)
    del share
    return AliasTable(jnp.asarray(thresholds), jnp.asarray(aliases), jnp.asarray(weights))


def blocks(rows: int) -> Iterator[slice]:
    """Return slices of BLOCK_ROWS rows, so that temporary arrays are small beside the table."""
    return (slice(first, min(first + BLOCK_ROWS, rows)) for first in range(0, rows, BLOCK_ROWS))


def place(column: ArrayLike | Column) -> Array | Column:
    """Put a column on the device, or, if it is on disk, in the dtype that the device will see.

    On a CPU a large one goes to NumPy's memory, whose pages are huge: a step on 10,000,000 rows takes a fifth less."""
    if isinstance(column, Column):
        return column.astype(jax.dtypes.canonicalize_dtype(column.dtype))
    if jax.default_backend() != "cpu" or isinstance(column, jax.Array):
        return jnp.asarray(column)
    dtype = jax.dtypes.canonicalize_dtype(np.asarray(column).dtype)
    if np.size(column) * dtype.itemsize < CACHE_BYTES or dtype.kind not in "fiu":
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
    """A batch besides that of the force: its rows, all if there are fewer, and the first step that does not use it."""

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
    """Return whether a gather waits for memory: the column is larger than a core's cache, and rows are neither so short
    that a prefetch takes as long, nor so long that the hardware prefetches most itself (benchmarks/gather.py)."""
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

"""Rows drawn with unequal probabilities at a cost that does not depend on how many there are (Walker 1977).

Of N rows, pick one with equal probabilities and keep it with the probability that the table has for it; otherwise take
its alias. Row i is then picked with probability p_i, and counts 1/(Np_i) times, so that sums over rows are estimated
without bias.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from isotherm.lib.types import Array, Float, Int32, RandomKey, UInt32

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
    """Return the table of N positive numbers, which need not add up to 1. `overwrite`: an array of float64 may be
    overwritten, to save memory.

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
        add_up(each)
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


def add_up(numbers: np.ndarray) -> None:
    """Replace numbers by their cumulative sum."""
    for some in blocks(len(numbers)):
        if some.start:
            numbers[some.start] += numbers[some.start - 1]
        numbers[some] = np.cumsum(numbers[some])


def blocks(rows: int) -> Iterator[slice]:
    """Return slices of BLOCK_ROWS rows, so that temporary arrays are small beside the table."""
    return (slice(first, min(first + BLOCK_ROWS, rows)) for first in range(0, rows, BLOCK_ROWS))

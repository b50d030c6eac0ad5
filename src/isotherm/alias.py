"""Rows drawn with unequal probabilities at a cost that does not depend on how many there are (Walker 1977).

Of N rows, pick one with equal probabilities and keep it with the probability that the table has for it; otherwise take
its alias. Row i is then picked with probability p_i, and counts 1/(Np_i) times, so that sums over rows are estimated
without bias.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, UInt32
from numpy.typing import ArrayLike

from isotherm.types import RandomKey

ONE = 2.0**32  # thresholds are probabilities in units of 2⁻³²


class AliasTable(NamedTuple):
    thresholds: UInt32[Array, " N"]
    aliases: Int32[Array, " N"]
    weights: Float[Array, " N"]  # 1/(Np_i)

    def picked(self, key: RandomKey, rows: Int32[Array, " n"]) -> Int32[Array, " n"]:
        """Rows with the table's probabilities, from rows with equal ones."""
        chance = jax.random.bits(key, rows.shape, jnp.uint32)
        return jnp.where(chance < self.thresholds[rows], rows, self.aliases[rows])


def make_table(probabilities: ArrayLike, dtype: Any = np.float32) -> AliasTable:
    """The table of N positive numbers; they need not add up to 1.

    A row with more than its share 1/N fills up those with less, in order: small row k takes what it lacks from the
    first large row whose excess is not used up by then, and a large row that has given too much takes from the next
    large one. What was lacking and what was in excess up to each row are cumulative sums, so both are a search in them.
    """
    p = np.asarray(probabilities, np.float64)
    if p.ndim != 1 or not p.size:
        raise ValueError(f"probabilities must be one number a row, got shape {p.shape}")
    if bad := int((~(np.isfinite(p) & (p > 0))).sum()):
        first = int(np.argmin(np.isfinite(p) & (p > 0)))
        raise ValueError(
            f"probabilities must be positive and finite, got {p[first]} for row {first} and {bad - 1} others like it; "
            "a row that is never drawn is left out of the posterior"
        )
    share = p * (p.size / p.sum())
    weights = (1 / share).astype(dtype)
    full = min(1.0, float(share.max()))  # rounding may leave all a bit below 1
    small, large = np.flatnonzero(share < full), np.flatnonzero(share >= full)
    lacking, excess = np.cumsum(1 - share[small]), np.cumsum(share[large] - 1)
    aliases, last = np.arange(p.size, dtype=np.int32), large.size - 1
    if small.size:
        before = np.concatenate([[0.0], lacking[:-1]])
        aliases[small] = large[np.minimum(np.searchsorted(excess, before, side="right"), last)]
        spent = np.searchsorted(lacking, excess, side="right")  # the small row that uses up a large one
        given = np.flatnonzero(spent[:last] < small.size)
        given = given[before[spent[given]] < excess[given]]  # else the row before had used it up, and no more
        share[large] = 1
        share[large[given]] = 1 + excess[given] - lacking[spent[given]]
        aliases[large[given]] = large[given + 1]
    thresholds = np.minimum(np.clip(share, 0, 1) * ONE, ONE - 1).astype(np.uint32)
    return AliasTable(jnp.asarray(thresholds), jnp.asarray(aliases), jnp.asarray(weights))

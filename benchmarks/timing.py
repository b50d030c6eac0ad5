"""Ratios of running times on a noisy machine: the contestants take turns, and a ratio is that of one turn."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np


class Ratio(NamedTuple):
    """The median over turns, and the quartiles beside it."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g}–{self.high:.3g})"


def turns(contestants: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, np.ndarray]:
    """Seconds of each contestant in each turn, after one call that is not counted (it compiles).

    The order is drawn anew each turn, so that nobody always runs in the wake of the same other.
    """
    for run in contestants.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    order = np.random.default_rng(0)
    for _ in range(repeats):
        for name in order.permutation(list(contestants)):
            began = time.perf_counter()
            jax.block_until_ready(contestants[name]())
            seconds[name].append(time.perf_counter() - began)
    return {name: np.asarray(times) for name, times in seconds.items()}


def ratio(above: np.ndarray, below: np.ndarray) -> Ratio:
    """Of two contestants' seconds, turn by turn."""
    low, median, high = np.quantile(above / below, [0.25, 0.5, 0.75])
    return Ratio(float(median), float(low), float(high))

"""Ratios of running times on a noisy machine: the contestants take turns, and a ratio is that of one turn."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np


class Ratio(NamedTuple):
    """The median over turns with its quartiles, and the median ratio of processor times, which a busy machine blurs
    less."""

    median: float
    low: float
    high: float
    processor: float | None = None

    def __str__(self) -> str:
        said = f"{self.median:.3g} ({self.low:.3g}–{self.high:.3g})"
        return said if self.processor is None else f"{said}, processor {self.processor:.3g}"


def turns(contestants: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, np.ndarray]:
    """Each contestant's seconds (first column) and seconds of processor (second) in each turn.

    One call before that is not counted: it compiles. The order is drawn anew each turn, so that nobody always runs in
    the wake of the same other.
    """
    for run in contestants.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    order = np.random.default_rng(0)
    for _ in range(repeats):
        for name in order.permutation(list(contestants)):
            began, used = time.perf_counter(), time.process_time()
            jax.block_until_ready(contestants[name]())
            seconds[name].append((time.perf_counter() - began, time.process_time() - used))
    return {name: np.asarray(times) for name, times in seconds.items()}


def ratio(above: np.ndarray, below: np.ndarray) -> Ratio:
    """Of two contestants, turn by turn: seconds, or what `turns` returns."""
    quotient = above / np.maximum(below, 1e-9)
    if quotient.ndim == 1:
        return Ratio(*_quartiles(quotient))
    return Ratio(*_quartiles(quotient[:, 0]), float(np.median(quotient[:, 1])))


def _quartiles(values: np.ndarray) -> tuple[float, float, float]:
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(median), float(low), float(high)

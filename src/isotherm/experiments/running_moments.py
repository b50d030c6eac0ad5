"""Moments of the draws so far: the points of a curve, as if the run had ended there.

At draw k the first fifth of those k draws is dropped as burn-in, so the last point of a curve is the result of the
whole run, and one run gives every point.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from isotherm.experiments.tasks import Gaussian


class Window(NamedTuple):
    """Draws `first` up to `last`."""

    first: int
    last: int


def windows(draws: int, burn_in: float, points: int = 40) -> list[Window]:
    """About `points` windows, evenly spaced, that end at draws/points, 2 draws/points, …, draws."""
    ends = np.unique(np.linspace(draws / points, draws, points).round().astype(int))
    within = [Window(int(burn_in * end), int(end)) for end in ends if end - int(burn_in * end) > 1]
    return within or [Window(0, draws)]


def means(draws: np.ndarray, within: list[Window]) -> Iterator[np.ndarray]:
    """The mean over each window of draws (draws, …), in float64."""
    edges, sums = _cumulative(draws, within, lambda block: block.sum(axis=0, dtype=np.float64))
    for first, last in within:
        yield (sums[edges[last]] - sums[edges[first]]) / (last - first)


def gaussians(draws: np.ndarray, within: list[Window], centre: np.ndarray) -> Iterator[Gaussian]:
    """Mean and covariance (divisor k) over each window of draws (draws, d); `centre` is a point near the draws."""
    centred = draws.astype(np.float64) - centre
    edges, sums = _cumulative(centred, within, lambda block: block.sum(axis=0))
    _, squares = _cumulative(centred, within, lambda block: block.T @ block)
    for first, last in within:
        count = last - first
        mean = (sums[edges[last]] - sums[edges[first]]) / count
        square = (squares[edges[last]] - squares[edges[first]]) / count
        yield Gaussian(mean + centre, square - np.outer(mean, mean))


def _cumulative(
    draws: np.ndarray, within: list[Window], total: Callable[[np.ndarray], np.ndarray]
) -> tuple[dict[int, int], list[np.ndarray]]:
    """Sums of `total` from the first draw up to each edge of a window, and where each edge's sum is."""
    edges = sorted({0} | {edge for window in within for edge in window})
    sums = [np.zeros_like(total(draws[:1]))]
    for first, last in pairwise(edges):
        sums.append(sums[-1] + total(draws[first:last]))
    return {edge: place for place, edge in enumerate(edges)}, sums

"""The largest usable step size of a method, and the one place that says what usable means.

A step size h is usable if every draw is finite and the test loss of the posterior mean is at most 5 % above its value
at a small step.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from isotherm.lib.types import Json
from isotherm.paper.experiments import cell, metrics
from isotherm.paper.experiments.tasks import Materials, PaperTask

TOLERANCE = 0.05  # how far above its value at the small step the loss may be
PRECISION = 1.1  # bisection ends when an unusable step is at most this many times the largest usable one
LIMIT = 0.1  # the largest step that is tried: more than 60 times the paper's largest on MNIST and CIFAR-10
FRICTION = 10.0  # the larger one of the paper's tables


class Largest(NamedTuple):
    """The largest usable step (None if not even the small one is), whether it is the limit that was set, and all
    trials: step size, loss (NaN when a draw was not finite) and whether the step is usable."""

    step_size: float | None
    at_limit: bool
    trials: list[tuple[float, float, bool]]


def measure(task: PaperTask, materials: Materials, method: str, passes: float) -> Json:
    """Find the largest usable step of one method on a task, with every step that was tried."""
    assert task.small_step is not None
    seconds = 0.0

    def loss(step_size: float) -> float:
        nonlocal seconds
        tree = cell.draw(task, materials, cell.Cell(method, step_size, FRICTION, seed=0), passes)
        seconds += tree.attrs["sampling_time"]
        if cell.first_bad_step(tree) is not None:
            return math.nan
        burnt = int(task.burn_in * tree["posterior"].sizes["draw"])
        return metrics.of_mean(cell.parameters(tree), materials, burnt)[0]

    largest = search(loss, task.small_step, LIMIT)
    return {
        "metrics": {"largest_usable_step": largest.step_size},
        "at_limit": largest.at_limit,
        "trials": [{"step_size": h, "loss": cell.finite(value), "usable": good} for h, value, good in largest.trials],
        "first_bad_step": None,
        "seconds": seconds,
    }


def usable(loss: float, loss_at_small: float) -> bool:
    """Return whether a loss is finite, and at most TOLERANCE above the loss at a small step (losses are positive)."""
    return math.isfinite(loss) and loss <= (1 + TOLERANCE) * loss_at_small


def search(loss: Callable[[float], float], small: float, limit: float, precision: float = PRECISION) -> Largest:
    """Double from `small` until a step is unusable or `limit` is reached, then bisect on a logarithmic scale; `loss` of
    a step size is that of the posterior mean of a run, NaN if any of its draws was not finite."""
    trials: list[tuple[float, float, bool]] = []

    def works(step_size: float) -> bool:
        value = loss(step_size)
        trials.append((step_size, value, usable(value, trials[0][1] if trials else value)))
        return trials[-1][2]

    if not works(small):
        return Largest(None, False, trials)
    low, high = small, min(2 * small, limit)
    while works(high):
        if high == limit:
            return Largest(limit, True, trials)
        low, high = high, min(2 * high, limit)
    while high > precision * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if works(middle) else (low, middle)
    return Largest(low, False, trials)

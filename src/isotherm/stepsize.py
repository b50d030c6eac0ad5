"""The largest usable step of a sampler, and the one place that says what usable means.

A step size h is usable if every draw is finite and the test loss of the posterior mean is at most 5 % above its value
at a small step.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from isotherm import arguments

TOLERANCE = 0.05  # how far above its value at the small step the loss may be
PRECISION = 1.1  # bisection ends when an unusable step is at most this many times the largest usable one


class Trial(NamedTuple):
    """One step size that was tried; `loss` is NaN when a draw was not finite."""

    step_size: float
    loss: float
    usable: bool


class Largest(NamedTuple):
    """The largest usable step (None if not even the small one is), whether it is the limit that was set, all trials."""

    step_size: float | None
    at_limit: bool
    trials: list[Trial]


def usable(loss: float, loss_at_small: float, tolerance: float = TOLERANCE) -> bool:
    """Finite, and at most `tolerance` above the loss at a small step (for losses, which are positive)."""
    return math.isfinite(loss) and loss <= (1 + tolerance) * loss_at_small


def largest_usable_step(
    loss: Callable[[float], float],
    small: float,
    limit: float,
    tolerance: float = TOLERANCE,
    precision: float = PRECISION,
) -> Largest:
    """Double from `small` until a step is unusable or `limit` is reached, then bisect on a logarithmic scale.

    Args:
        loss: the test loss of the posterior mean of a run at a step size, NaN if any of its draws was not finite.
        small: a step size at which the sampler is known to work.
        limit: the largest step to try.
        tolerance: how far above its value at `small` the loss may be, as a fraction.
        precision: the ratio of the bracket at which to stop.
    """
    small, limit = arguments.positive("small", small), arguments.positive("limit", limit)
    if limit < small:
        raise ValueError(f"limit must be at least small={small:g}, got {limit:g}")
    if arguments.number("precision", precision) <= 1:
        raise ValueError(f"precision must be greater than 1, a ratio of step sizes, got {precision!r}")
    first = loss(small)
    trials = [Trial(small, first, usable(first, first, tolerance))]
    if not trials[0].usable:
        return Largest(None, False, trials)

    def works(step_size: float) -> bool:
        value = loss(step_size)
        trials.append(Trial(step_size, value, usable(value, first, tolerance)))
        return trials[-1].usable

    low, high = small, min(2 * small, limit)
    while works(high):
        if high == limit:
            return Largest(limit, True, trials)
        low, high = high, min(2 * high, limit)
    while high > precision * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if works(middle) else (low, middle)
    return Largest(low, False, trials)

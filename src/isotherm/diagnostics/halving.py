"""What halving the step size changes: a bias that shrinks with the step shows as a difference of two runs."""

from typing import NamedTuple

import numpy as np

from isotherm.diagnostics.stein import standard_errors


class Halving(NamedTuple):
    """By how much a run at h exceeds one at h/2. By coordinate: mean and variance, with standard errors. Over all of
    them: the distance of the means, as a root mean square without what chance adds to it, and the mean variance.

    With a bias in h^p, a run at h is off by 2^p/(2^p − 1) times the difference: twice it at order 1, 4/3 at order 2.
    """

    shift: np.ndarray
    shift_error: np.ndarray
    variance: np.ndarray
    variance_error: np.ndarray
    distance: float
    distance_error: float
    trace: float
    trace_error: float


def step_halving(coarse: np.ndarray, fine: np.ndarray) -> Halving:
    """Of draws at h and at h/2, by (chain, draw, coordinate), both whitened by the same coordinates, in which the
    posterior's variance is about 1: differences are then in standard deviations and in variances."""
    for name, draws in (("coarse", coarse), ("fine", fine)):
        if draws.ndim != 3 or draws.shape[2] != coarse.shape[2] or draws.shape[0] * draws.shape[1] < 2:
            raise ValueError(
                f"{name} must have the axes chain, draw and coordinate, with two draws or more, and as many "
                f"coordinates as coarse, got shapes {coarse.shape} and {fine.shape}"
            )
    a, b = (np.asarray(draws, np.float64) for draws in (coarse, fine))
    squares = [(draws - draws.mean(axis=(0, 1))) ** 2 for draws in (a, b)]
    shift, shift_error = _difference(a, b)
    variance, variance_error = _difference(*squares)
    trace, trace_error = _difference(*(square.mean(axis=2, keepdims=True) for square in squares))
    square = np.mean(shift**2 - shift_error**2)
    square_error = np.sqrt(np.mean(4 * shift**2 * shift_error**2 + 2 * shift_error**4) / a.shape[2])
    distance = float(np.sqrt(max(square, 0.0)))
    # √(D² + e) − D: what an error e of D² makes of D, at zero too.
    distance_error = float(np.sqrt(distance**2 + square_error) - distance)
    sums = distance, distance_error, float(trace[0]), float(trace_error[0])
    return Halving(shift, shift_error, variance, variance_error, *sums)


def _difference(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The difference of the means of values by (chain, draw, …), and its standard error."""
    return a.mean(axis=(0, 1)) - b.mean(axis=(0, 1)), np.hypot(standard_errors(a), standard_errors(b))

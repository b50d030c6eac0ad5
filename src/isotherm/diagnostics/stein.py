"""How far draws are from the posterior, from the forces at the draws alone, without a reference.

At stationarity, with F = ∇ log π(θ | data) and m the posterior mean, E[F] = 0 and −E[(θ − m)Fᵀ] = I (Stein). In
coordinates z in which the curvature is about 1, F is about −(z − m). So −mean F is how far the mean of the draws is
off, in posterior standard deviations, and −mean (z − z̄)F is their variance over the true one. With f = z³ − 3z,
E[f' + fF] = 0 is about the tails: for draws of variance 1 and a force −z, its mean is 3 less their kurtosis. Beyond
REACH, f is held constant, or a few draws would decide.
"""

from typing import NamedTuple

import numpy as np

from isotherm.diagnostics.convergence import standard_errors

REACH = 2.5  # standard deviations up to which f = z³ − 3z grows
TAILS_UNIT = 0.66988  # −E[f' + fF] for each unit of a small excess kurtosis: less than 1, since f is held


class SteinMoments(NamedTuple):
    """By direction: how far the mean is off and the variance over the true one, each with its standard error. Over all
    coordinates: how far the mean is off, as a root mean square, and the mean variance over the true one."""

    shift: np.ndarray
    shift_error: np.ndarray
    variance: np.ndarray
    variance_error: np.ndarray
    distance: float
    trace: float
    trace_error: float


def stein_moments(positions: np.ndarray, forces: np.ndarray, directions: np.ndarray | None = None) -> SteinMoments:
    """Return how far mean and variance are off, of whitened positions and the forces there, by (chain, draw,
    coordinate), along unit vectors, a row each, or the coordinates. Forces may be noisy, if right on average."""
    z, F = _centred(positions, forces, None)
    trace, distance = -np.mean(z * F, axis=2, keepdims=True), np.sqrt(np.mean(F.mean(axis=(0, 1)) ** 2))
    z, F = _centred(positions, forces, directions)
    shift, variance = -F, -z * F
    return SteinMoments(
        shift.mean(axis=(0, 1)),
        standard_errors(shift),
        variance.mean(axis=(0, 1)),
        standard_errors(variance),
        float(distance),
        float(trace.mean()),
        float(standard_errors(trace)[0]),
    )


class SteinTails(NamedTuple):
    """By direction, by how much the kurtosis is too large, with its standard error; and its mean over directions.
    Exact for a small excess; of a large one, the sign and the rough size."""

    excess: np.ndarray
    excess_error: np.ndarray
    mean: float
    mean_error: float


def stein_tails(positions: np.ndarray, forces: np.ndarray, directions: np.ndarray | None = None) -> SteinTails:
    """Return how far the tails are off, of what `stein_moments` takes; a mean or variance a bit off does not show."""
    z, F = _centred(positions, forces, directions)
    held = np.clip(z, -REACH, REACH)
    slope = np.where(abs(z) < REACH, 3 * z**2 - 3, 0)
    excess = -(slope + (held**3 - 3 * held) * F) / TAILS_UNIT  # −(f' + fF), f held at its values at ±REACH further out
    error = standard_errors(excess.mean(axis=2))
    return SteinTails(excess.mean(axis=(0, 1)), standard_errors(excess), float(excess.mean()), float(error))


def _centred(positions: np.ndarray, forces: np.ndarray, directions: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return positions around their mean, and the forces, along these directions."""
    if positions.ndim != 3 or positions.shape != forces.shape:
        raise ValueError(
            f"positions and forces must have the axes chain, draw and coordinate, got shapes {positions.shape} and "
            f"{forces.shape}"
        )
    z, F = (np.asarray(array, np.float64) for array in (positions, forces))
    z = z - z.mean(axis=(0, 1))
    return (z, F) if directions is None else (z @ directions.T, F @ directions.T)


class Bias(NamedTuple):
    """How far the law of draws is from the posterior, without what chance adds: the square of the distance of the mean,
    over the number of coordinates, and the mean variance over the true one, with standard errors; and how alike the
    draws of a chain are: the variance of the chains' means over that of all draws, 1 where chains do not move."""

    square: float
    square_error: float
    trace: float
    trace_error: float
    memory: float

    @property
    def distance(self) -> float:
        """The distance of the mean, in posterior standard deviations, root mean square over coordinates."""
        return float(np.sqrt(max(self.square, 0.0)))


def stein_bias(positions: np.ndarray, forces: np.ndarray) -> Bias:
    """Return the bias, of whitened positions and the forces there, by (chain, draw, coordinate). Chains must be
    independent, but draws within a chain need not be: only means of different chains are multiplied, so that chance
    adds nothing, and errors come from leaving out each chain in turn (the jackknife)."""
    z, F = _centred(positions, forces, None)
    chains, d = len(z), z.shape[2]
    if chains < 3:
        raise ValueError(f"positions must be of 3 chains or more, got shape {positions.shape}")
    means, slopes, products = z.mean(axis=1), F.mean(axis=1), (z * F).mean(axis=1).sum(axis=1)

    def estimates(kept: np.ndarray) -> tuple[float, float]:
        m, f, pairs = means[kept], slopes[kept], kept.sum() * (kept.sum() - 1)
        square = (f.sum(axis=0) @ f.sum(axis=0) - np.sum(f * f)) / pairs
        cross = (m.sum(axis=0) @ f.sum(axis=0) - np.sum(m * f)) / pairs
        return square / d, (cross - products[kept].mean()) / d

    without = np.array([estimates(np.arange(chains) != chain) for chain in range(chains)])
    square_error, trace_error = np.sqrt((chains - 1) * without.var(axis=0))
    square, trace = estimates(np.ones(chains, bool))
    return Bias(float(square), float(square_error), float(trace), float(trace_error), memory_of(z))


def memory_of(positions: np.ndarray) -> float:
    """Return how alike the draws of a chain are (`Bias`), on average over coordinates."""
    z = positions - positions.mean(axis=(0, 1))
    spread, between = np.mean(z**2, axis=(0, 1)), z.mean(axis=1).var(axis=0, ddof=1)
    return float(np.mean(np.where(spread > 0, between / np.where(spread > 0, spread, 1), 1)))

"""How well draws predict: losses and errors from log-probabilities, and how far probabilities can be trusted.

Log-probabilities have shape (m, classes) for one parameter vector and (draws, m, classes) for many. Labels have shape
(m,) and are columns 0 … classes − 1. Losses are in nats per test example. Of a NaN, the result is NaN.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

ROUNDING = 1e-4  # by how much a probability of 1 may come out larger in float32, after sums over many classes


def log_loss(log_probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return −(1/m) Σ_i log p(y_i|x_i), for one parameter vector: minus the mean test log-likelihood."""
    log_p, y = _checked(log_probabilities, labels, 2)
    return float(-log_p[np.arange(len(y)), y].mean())


def error(log_probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of examples whose most probable class is not their label, for one parameter vector."""
    log_p, y = _checked(log_probabilities, labels, 2)
    if np.isnan(log_p).any():
        return float("nan")
    return float(np.mean(log_p.argmax(axis=1) != y))


def log_losses(log_probabilities: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
    """Return the log loss of each draw, (draws,)."""
    log_p, y = _checked(log_probabilities, labels, 3)
    return np.asarray(-log_p[:, np.arange(len(y)), y].mean(axis=1))


def average(log_probabilities: ArrayLike) -> NDArray[np.float64]:
    """log of the average over draws of the probabilities: (draws, m, classes) → (m, classes)."""
    log_p = np.asarray(log_probabilities, np.float64)
    if log_p.ndim != 3 or log_p.shape[0] == 0:
        raise ValueError(f"log_probabilities must have shape (draws, m, classes), got {log_p.shape}")
    with np.errstate(invalid="ignore"):  # NaN in, NaN out
        return np.asarray(np.logaddexp.reduce(log_p, axis=0) - np.log(log_p.shape[0]))


def expected_calibration_error(probabilities: ArrayLike, labels: ArrayLike, bins: int = 15) -> float:
    """ECE = Σ_b (m_b/m) |accuracy_b − confidence_b| (Guo et al. 2017).

    Examples go into equal bins of (0, 1] by the probability of their most probable class; 15 bins, as in the paper.
    `probabilities` has shape (m, classes), labels are 0 … classes − 1.

    Examples:
        >>> expected_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
        0.25
    """
    p = np.asarray(probabilities, np.float64)
    if p.ndim != 2 or 0 in p.shape:
        raise ValueError(f"probabilities must have shape (m, classes), no axis empty, got {p.shape}")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    y = check_labels(np.asarray(labels), *p.shape)
    if np.isnan(p).any():
        return float("nan")
    if p.min() < 0 or p.max() > 1 + ROUNDING:
        raise ValueError(f"probabilities must lie in [0, 1], got {p.min():.3g} to {p.max():.3g}")
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == y
    place = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    gaps = np.bincount(place, weights=correct - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / y.size)


def _checked(
    log_probabilities: ArrayLike, labels: ArrayLike, ndim: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    log_p, y = np.asarray(log_probabilities, np.float64), np.asarray(labels)
    shape = "(m, classes)" if ndim == 2 else "(draws, m, classes)"
    if log_p.ndim != ndim or 0 in log_p.shape:
        raise ValueError(f"log_probabilities must have shape {shape}, no axis empty, got {log_p.shape}")
    if (log_p > ROUNDING).any():
        raise ValueError(f"log_probabilities must not be positive, got {log_p.max():.3g}: are they probabilities?")
    return log_p, check_labels(y, log_p.shape[-2], log_p.shape[-1])


def check_labels(labels: NDArray[np.generic], m: int, classes: int) -> NDArray[np.int64]:
    """Return labels as integers: m whole numbers in 0 … classes − 1, or an error."""
    if labels.shape != (m,):
        raise ValueError(f"labels must have shape ({m},), one for each example, got {labels.shape}")
    y = labels.astype(np.int64)
    if (y != labels).any() or y.min() < 0 or y.max() >= classes:
        raise ValueError(
            f"labels must be whole numbers from 0 to {classes - 1}, got {labels.min()} to {labels.max()}; "
            "a model's class_index(y) gives them"
        )
    return y

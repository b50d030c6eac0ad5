"""Expected calibration error."""

import numpy as np
from numpy.typing import ArrayLike

from isotherm.diagnostics.predictive import ROUNDING, check_labels


def expected_calibration_error(probabilities: ArrayLike, labels: ArrayLike, bins: int = 15) -> float:
    """ECE = Σ_b (m_b/m) |accuracy_b − confidence_b| (Guo et al. 2017).

    Examples go into equal bins of (0, 1] by the probability of their most probable class; 15 bins, as in the paper.
    `probabilities` has shape (m, classes), labels are 0 … classes − 1.

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

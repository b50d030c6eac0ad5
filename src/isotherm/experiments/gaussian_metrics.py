"""Metrics of draws from a posterior that is a known Gaussian: the 2-Wasserstein distance and its parts."""

from typing import Any

import numpy as np

from isotherm import diagnostics
from isotherm.experiments import running_moments
from isotherm.experiments.tasks import Materials


def measure(
    draws: np.ndarray, materials: Materials, burn_in: float, usable: bool
) -> tuple[dict[str, float], dict[str, list[float]], dict[str, Any]]:
    """W2 at the end and along the way; variance over true variance; error of the mean in posterior s.d."""
    if not usable:
        return dict.fromkeys(("w2", "variance_ratio", "mean_error"), float("nan")), {"draws": [], "w2": []}, {}
    exact = materials.exact
    assert exact is not None
    windows = running_moments.windows(len(draws), burn_in)
    moments = list(running_moments.gaussians(draws, windows, exact.mean))
    distances = [diagnostics.gaussian_w2(*now, *exact) for now in moments]
    precision = np.linalg.inv(exact.covariance)
    metrics = {
        "w2": distances[-1],
        "variance_ratio": diagnostics.variance_ratio(precision, moments[-1].covariance, exact.covariance),
        "mean_error": diagnostics.mean_error(precision, moments[-1].mean, exact.mean),
    }
    return metrics, {"draws": [window.last for window in windows], "w2": distances}, {}

"""Synthetic linear regression, whose posterior is known exactly: y = θ·x + ε, x ~ N(0, I), ε ~ N(0, 1)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotherm.lib import arguments
from isotherm.paper.datasets.source import SOURCES, Arrays

SOURCE = SOURCES["linear_regression"]


class Simulated(NamedTuple):
    """Data `{"x": float32 (N, d), "y": float32 (N,)}` and the θ they were made with, float64 (d,)."""

    data: Arrays
    theta: NDArray[np.float64]


class ExactPosterior(NamedTuple):
    """Mean (d,) and covariance (d, d) of the Gaussian that the posterior is, float64."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]


def make(N: int = 10_000, d: int = 100, seed: int = 0, scale: float = 0.1) -> Simulated:
    """Simulate N rows with x ~ N(0, I_d), θ ~ N(0, scale² I_d) and unit noise, the same for the same seed."""
    arguments.integer("N", N, 1)
    arguments.integer("d", d, 1)
    arguments.non_negative("scale", scale)
    rng = np.random.default_rng(seed)
    theta = scale * rng.standard_normal(d)
    x = rng.standard_normal((N, d)).astype(np.float32)
    y = (x @ theta + rng.standard_normal(N)).astype(np.float32)
    return Simulated({"x": x, "y": y}, theta)


def posterior(data: Arrays, prior_variance: float = 10.0, noise_variance: float = 1.0) -> ExactPosterior:
    """Compute the exact posterior under θ ~ N(0, v I) and noise of variance s, in float64.

    Its covariance is C = (XᵀX/s + I/v)⁻¹, its mean C Xᵀy/s.
    """
    arguments.positive("prior_variance", prior_variance)
    arguments.positive("noise_variance", noise_variance)
    x, y = (np.asarray(data[name], np.float64) for name in ("x", "y"))
    precision = x.T @ x / noise_variance + np.eye(x.shape[1]) / prior_variance
    covariance = np.linalg.inv(precision)
    mean = np.linalg.solve(precision, x.T @ y / noise_variance)
    return ExactPosterior(mean.astype(np.float64), ((covariance + covariance.T) / 2).astype(np.float64))

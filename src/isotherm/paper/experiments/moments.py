"""How far the mean and covariance of draws are from those of a reference.

`variance_ratio` and `mean_error` are in units of the posterior's own spread. It is measured by H, the Hessian of the
negative log-posterior at the posterior mean (the Laplace precision), and not by the inverse of the covariance of the
reference's draws: from 1,500 draws that inverse is so uncertain that a perfect sampler would score a variance ratio of
1.07 at d = 100 and 1.37 at d = 400.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def variance_ratio(hessian: ArrayLike, covariance: ArrayLike, reference_covariance: ArrayLike) -> float:
    """Return tr(H C)/tr(H C_ref): 1 when the spread is right, above 1 when the sampler is too hot."""
    h, c, c_ref = (np.asarray(a, np.float64) for a in (hessian, covariance, reference_covariance))
    return float(np.sum(h * c) / np.sum(h * c_ref))


def mean_error(hessian: ArrayLike, mean: ArrayLike, reference_mean: ArrayLike) -> float:
    """Return √((m − m_ref)ᵀ H (m − m_ref)/d): the error of the mean in posterior standard deviations."""
    error = np.asarray(mean, np.float64) - np.asarray(reference_mean, np.float64)
    return float(np.sqrt(np.maximum(error @ np.asarray(hessian, np.float64) @ error, 0) / len(error)))


def gaussian_w2(mean1: ArrayLike, cov1: ArrayLike, mean2: ArrayLike, cov2: ArrayLike) -> float:
    """Return W₂ between N(m₁, C₁) and N(m₂, C₂), in float64:

    W₂² = |m₁ − m₂|² + tr(C₁ + C₂ − 2 (C₂^½ C₁ C₂^½)^½)   (Dowson & Landau 1982).

    The last trace is computed as the sum of the singular values of C₁^½ C₂^½: taking roots of the eigenvalues of
    C₂^½ C₁ C₂^½ would lose the small ones to rounding. A distance below about 5e-8 √(d tr C) is rounding.
    """
    m1, c1, m2, c2 = (np.asarray(a, np.float64) for a in (mean1, cov1, mean2, cov2))
    if not all(np.isfinite(a).all() for a in (m1, c1, m2, c2)):
        return float("nan")
    cross = np.linalg.svd(_square_root(c1) @ _square_root(c2), compute_uv=False).sum()
    square = np.sum((m1 - m2) ** 2) + np.trace(c1) + np.trace(c2) - 2 * cross
    return float(np.sqrt(max(square, 0.0)))


def _square_root(a: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric square root; eigenvalues that rounding made negative count as zero."""
    values, vectors = np.linalg.eigh((a + a.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T

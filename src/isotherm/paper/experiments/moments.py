"""How far the mean and covariance of draws are from those of a reference.

`variance_ratio` and `mean_error` are in units of the posterior's own spread. It is measured by H, the Hessian of the
negative log-posterior at the posterior mean (the Laplace precision), and not by the inverse of the covariance of the
reference's draws: from 1,500 draws that inverse is so uncertain that a perfect sampler would score a variance ratio of
1.07 at d = 100 and 1.37 at d = 400.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def variance_ratio(hessian: ArrayLike, covariance: ArrayLike, reference_covariance: ArrayLike) -> float:
    """tr(H C)/tr(H C_ref): 1 when the spread is right, above 1 when the sampler is too hot."""
    h = _square("hessian", hessian)
    c = _square("covariance", covariance, h.shape[0])
    c_ref = _square("reference_covariance", reference_covariance, h.shape[0])
    scale = np.sum(h * c_ref)
    if scale <= 0:
        raise ValueError(f"tr(hessian · reference_covariance) must be positive, got {scale:.3g}")
    return float(np.sum(h * c) / scale)


def mean_error(hessian: ArrayLike, mean: ArrayLike, reference_mean: ArrayLike) -> float:
    """√((m − m_ref)ᵀ H (m − m_ref)/d): the error of the mean in posterior standard deviations."""
    h = _square("hessian", hessian)
    m, m_ref = (np.asarray(value, np.float64) for value in (mean, reference_mean))
    for name, value in (("mean", m), ("reference_mean", m_ref)):
        if value.shape != h.shape[:1]:
            raise ValueError(f"{name} must have shape {h.shape[:1]} as the hessian has, got {value.shape}")
    square = (m - m_ref) @ h @ (m - m_ref)
    if square < -1e-9 * np.abs(h).max() * np.sum((m - m_ref) ** 2):  # more than rounding makes of a zero
        raise ValueError(f"hessian must be positive semi-definite, got vᵀHv = {square:.3g} along the error")
    return float(np.sqrt(np.maximum(square, 0) / h.shape[0]))


def _square(name: str, value: ArrayLike, size: int | None = None) -> NDArray[np.float64]:
    a = np.asarray(value, np.float64)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or (size is not None and a.shape[0] != size):
        wanted = "a square matrix" if size is None else f"of shape ({size}, {size}) as the hessian has"
        raise ValueError(f"{name} must be {wanted}, got shape {a.shape}")
    return a


def gaussian_w2(mean1: ArrayLike, cov1: ArrayLike, mean2: ArrayLike, cov2: ArrayLike) -> float:
    """W₂ between N(m₁, C₁) and N(m₂, C₂), in float64:

    W₂² = |m₁ − m₂|² + tr(C₁ + C₂ − 2 (C₂^½ C₁ C₂^½)^½)   (Dowson & Landau 1982).

    The last trace is computed as the sum of the singular values of C₁^½ C₂^½: taking roots of the eigenvalues of
    C₂^½ C₁ C₂^½ would lose the small ones to rounding. A distance below about 5e-8 √(d tr C) is rounding.

    Examples:
        >>> gaussian_w2([0.0, 0.0], [[1.0, 0.0], [0.0, 4.0]], [3.0, 0.0], [[4.0, 0.0], [0.0, 4.0]])
        3.1622776601683795
    """
    m1, m2 = (np.asarray(m, np.float64) for m in (mean1, mean2))
    c1, c2 = (np.asarray(c, np.float64) for c in (cov1, cov2))
    for name, m, c in (("1", m1, c1), ("2", m2, c2)):
        if m.ndim != 1 or c.shape != (m.size, m.size) or m.shape != m1.shape:
            raise ValueError(
                f"mean{name} must be a vector of length {m1.size} and cov{name} its square matrix, "
                f"got shapes {m.shape} and {c.shape}"
            )
    if not all(np.isfinite(a).all() for a in (m1, c1, m2, c2)):
        return float("nan")
    cross = np.linalg.svd(_square_root(c1) @ _square_root(c2), compute_uv=False).sum()
    square = np.sum((m1 - m2) ** 2) + np.trace(c1) + np.trace(c2) - 2 * cross
    return float(np.sqrt(max(square, 0.0)))


def _square_root(a: NDArray[np.float64]) -> NDArray[np.float64]:
    """The symmetric square root; eigenvalues that rounding made negative count as zero."""
    values, vectors = np.linalg.eigh((a + a.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T

"""How far the mean and covariance of draws are from those of a reference, in units of the posterior's own spread.

The spread is measured by H, the Hessian of the negative log-posterior at the posterior mean (the Laplace precision),
and not by the inverse of the covariance of the reference's draws: from 1,500 draws that inverse is so uncertain that a
perfect sampler would score a variance ratio of 1.07 at d = 100 and 1.37 at d = 400.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def variance_ratio(hessian: ArrayLike, covariance: ArrayLike, reference_covariance: ArrayLike) -> float:
    """tr(H C)/tr(H C_ref): 1 when the spread is right, above 1 when the sampler is too hot."""
    h = _square("hessian", hessian)
    c, c_ref = (
        _square(name, value, h.shape[0])
        for name, value in (("covariance", covariance), ("reference_covariance", reference_covariance))
    )
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

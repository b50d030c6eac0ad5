"""2-Wasserstein distance between Gaussians."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def gaussian_w2(mean1: ArrayLike, cov1: ArrayLike, mean2: ArrayLike, cov2: ArrayLike) -> float:
    """W₂ between N(m₁, C₁) and N(m₂, C₂), in float64:

    W₂² = |m₁ − m₂|² + tr(C₁ + C₂ − 2 (C₂^½ C₁ C₂^½)^½)   (Dowson & Landau 1982).

    The last trace is computed as the sum of the singular values of C₁^½ C₂^½: taking roots of the eigenvalues of
    C₂^½ C₁ C₂^½ would lose the small ones to rounding. A distance below about 5e-8 √(d tr C) is rounding.

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

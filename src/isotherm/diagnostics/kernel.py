"""The kernel Stein discrepancy: one number for all that is wrong with draws, as far as a kernel sees it."""

import numpy as np
from numpy.typing import ArrayLike

BLOCK_NUMBERS = 2**20  # of an array of pairs, at most: eight megabytes


def kernel_stein_discrepancy(
    positions: ArrayLike, forces: ArrayLike, *, scale: float = 1.0, exponent: float = -0.5
) -> float:
    """√(mean over all pairs of draws of u(x, y)), with F = ∇ log π and the inverse multiquadric kernel k,

    u = F(x)·F(y) k + F(x)·∇_y k + F(y)·∇_x k + tr ∇_x∇_y k,    k = (scale² + |x − y|²)^exponent,

    (Gorham & Mackey 2017; −1 < exponent < 0): zero in the limit of many draws of π, and of no other law. Of n
    independent draws of π its square is on average 1/n of u(x, x)'s mean, which is scale^(2·exponent) (|F|² +
    2|exponent| d/scale²). Positions and forces are by (…, d), best whitened; forces must be exact, since the square of
    noise would count. It takes n² pairs, a block of them at a time.

    Examples:
        >>> kernel_stein_discrepancy([[3.0]], [[4.0]]) ** 2  # |F|² + d
        17.0
    """
    x, F = (np.asarray(array, np.float64) for array in (positions, forces))
    if x.ndim < 2 or x.shape != F.shape or not x.size:
        raise ValueError(
            f"positions and forces must have one shape, (…, d), with a draw or more, got {x.shape} and {F.shape}"
        )
    if not scale > 0:
        raise ValueError(f"scale must be positive, got {scale!r}")
    if not -1 < exponent < 0:
        raise ValueError(f"exponent must be between -1 and 0, got {exponent!r}")
    x, F = x.reshape(-1, x.shape[-1]), F.reshape(-1, F.shape[-1])
    x = x - x.mean(axis=0)  # squares of distances come from products, which lose digits far from zero
    draws, d, b = len(x), x.shape[1], exponent
    squares, along = np.sum(x * x, axis=1), np.sum(x * F, axis=1)
    rows, total = max(1, BLOCK_NUMBERS // draws), 0.0
    for first in range(0, draws, rows):
        block = slice(first, first + rows)
        r2 = np.maximum(squares[block, None] + squares - 2 * x[block] @ x.T, 0)
        q = scale**2 + r2
        # F(x)·(x − y) − F(y)·(x − y); ∇_y k = −2b q^(b−1) (x − y), and ∇_x k is its negative
        slopes = along[block, None] - F[block] @ x.T - (x[block] @ F.T - along)
        curvature = -2 * b * d * q ** (b - 1) - 4 * b * (b - 1) * r2 * q ** (b - 2)
        total += float(np.sum((F[block] @ F.T) * q**b - 2 * b * q ** (b - 1) * slopes + curvature))
    return float(np.sqrt(max(total, 0.0)) / draws)

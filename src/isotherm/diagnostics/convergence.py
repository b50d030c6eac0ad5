"""Whether chains agree, and how many independent draws they are worth."""

from typing import NamedTuple

import numpy as np


class Convergence(NamedTuple):
    """By parameter: effective sample size in the bulk and in the tails (5 % and 95 % quantiles), and rank-normalised
    R-hat (Vehtari et al. 2021)."""

    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    r_hat: np.ndarray

    @property
    def least_ess(self) -> np.ndarray:
        return np.minimum(self.ess_bulk, self.ess_tail)


def convergence(draws: np.ndarray) -> Convergence:
    """Of draws by (chain, draw, parameter). One chain alone is compared with itself: its halves stand for two."""
    from arviz_stats.base import array_stats

    if draws.ndim != 3:
        raise ValueError(f"draws must have the axes chain, draw and parameter, got shape {draws.shape}")
    columns = [np.asarray(draws[..., i], np.float64) for i in range(draws.shape[2])]
    with np.errstate(all="ignore"):  # a parameter that never moves gives NaN
        axes = {"chain_axis": 0, "draw_axis": 1}
        bulk = [float(array_stats.ess(column, method="bulk", **axes)) for column in columns]
        tail = [float(array_stats.ess(column, method="tail", prob=(0.05, 0.95), **axes)) for column in columns]
        if draws.shape[0] == 1:
            half = draws.shape[1] // 2
            columns = [column[:, : 2 * half].reshape(2, half) for column in columns]
        r_hat = [float(array_stats.rhat(column, **axes)) for column in columns]
    return Convergence(np.array(bulk), np.array(tail), np.array(r_hat))

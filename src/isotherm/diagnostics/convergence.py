"""Whether chains agree, and how many independent draws they are worth.

ArviZ's numbers (Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021), of many parameters at once: its loop over
parameters and lags took longer than to sample a small network.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.special import ndtri

R_HAT = 1.01  # the bound of Vehtari et al. (2021)
FEWEST_DRAWS = 4  # of a chain, for any number
TAIL_QUANTILES = (0.05, 0.95)
SAME_RANGE = 1e-15  # a range below which draws are the same
BLOCK_DRAWS = 2**20  # of all chains and of some parameters, that a thread looks at together
THREADS = min(4, os.cpu_count() or 1)
WATCHED_ENTRIES = 1024  # entries of the parameters whose convergence is computed, if there are more than
WATCH_ALL_UP_TO = 4096
ERROR_BLOCKS = 8  # of each chain, whose means give errors: they should be longer than the autocorrelation time


class Convergence(NamedTuple):
    """By parameter: effective sample size in bulk and tails (5 % and 95 % quantiles), and rank-normalised R-hat."""

    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    r_hat: np.ndarray

    @property
    def least_ess(self) -> np.ndarray:
        return np.asarray(np.minimum(self.ess_bulk, self.ess_tail))


def convergence(draws: np.ndarray) -> Convergence:
    """Return R-hat and effective draws, of draws by (chain, draw, parameter); one chain is compared with itself, by
    halves. All are NaN for a parameter with draws that are not finite, and R-hat for one that never moves."""
    if draws.ndim != 3:
        raise ValueError(f"draws must have the axes chain, draw and parameter, got shape {draws.shape}")
    chains, count, parameters = draws.shape
    if not chains or not parameters or count < FEWEST_DRAWS:
        return Convergence(*np.full((3, parameters), np.nan))
    size = max(1, BLOCK_DRAWS // (chains * count))
    blocks = [draws[..., begin : begin + size] for begin in range(0, parameters, size)]
    with ThreadPoolExecutor(THREADS) as pool:
        return Convergence(*np.concatenate(list(pool.map(_of_some, blocks)), axis=1))


def _of_some(draws: np.ndarray) -> np.ndarray:
    """Return bulk, tail and R-hat, by parameter, of as many as fit in memory."""
    x = np.moveaxis(draws, 2, 0).astype(np.float64)  # by (parameter, chain, draw)
    good = np.isfinite(x).all(axis=(1, 2))
    x[~good] = 0
    halves = _halves(x)
    scores = _normal_scores(halves)
    low, high = np.quantile(x, TAIL_QUANTILES, axis=(1, 2))[..., None, None]
    with np.errstate(all="ignore"):  # 0/0 of what never moves
        bulk = effective(scores)
        tail = np.minimum(effective(_halves(x <= low)), effective(_halves(x <= high)))
        if x.shape[1] == 1:
            halves = _halves(_halves(x[..., : x.shape[2] // 2 * 2]))
            scores = _normal_scores(halves)
        folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
        centre, spread = _r_hat(scores), _r_hat(_normal_scores(folded))
        r_hat = np.where(spread > centre, spread, centre)
    return np.where(good, [bulk, tail, r_hat], np.nan)


def _halves(x: np.ndarray) -> np.ndarray:
    """Split every chain in two."""
    half = x.shape[2] // 2
    return np.concatenate([x[..., :half], x[..., -half:]], axis=1)


def _normal_scores(x: np.ndarray) -> np.ndarray:
    """Return quantiles of N(0, 1) at the ranks of all draws of a parameter (Blom 1958)."""
    from scipy.stats import rankdata  # which takes a while to import

    ranks = rankdata(x.reshape(len(x), -1), axis=1)
    return np.reshape(ndtri((ranks - 3 / 8) / (ranks.shape[1] + 1 / 4)), x.shape)


def _r_hat(x: np.ndarray) -> np.ndarray:
    draws = x.shape[2]
    if draws < 2:
        return np.full(len(x), np.nan)
    between, within = x.mean(axis=2).var(axis=1, ddof=1), x.var(axis=2, ddof=1).mean(axis=1)
    return np.asarray(np.sqrt(between / within + (draws - 1) / draws))


def effective(x: np.ndarray) -> np.ndarray:
    """Return effective draws of the mean, by parameter, of x by (parameter, chain, draw): Geyer's initial monotone
    sequence, in sums Γ of two neighbouring autocorrelations."""
    x = x.astype(np.float64)
    _, chains, draws = x.shape
    means = x.mean(axis=2, keepdims=True)
    length = fft.next_fast_len(2 * draws, real=True)
    power = np.mean(np.abs(fft.rfft(x - means, length, axis=2)) ** 2, axis=1)
    covariance = fft.irfft(power, length, axis=1)[:, :draws] / draws  # by (parameter, lag), a mean over chains
    within = covariance[:, :1] * draws / (draws - 1)
    variance = covariance[:, :1] + (means[..., 0].var(axis=1, ddof=1)[:, None] if chains > 1 else 0)
    rho = 1 - (within - covariance) / variance
    rho[:, 0] = 1
    last = max(0, (draws - 3) // 2)  # pair, at most
    even, gamma = rho[:, 0 : 2 * last + 1 : 2], rho[:, 0 : 2 * last + 1 : 2] + rho[:, 1 : 2 * last + 2 : 2]
    ends = np.where((gamma <= 0).any(axis=1), np.argmax(gamma <= 0, axis=1), last)[:, None]
    monotone = np.where(np.arange(last + 1) < ends, np.minimum.accumulate(gamma, axis=1), 0).sum(axis=1)
    at_end, pair_at_end = (np.take_along_axis(each, ends, axis=1)[:, 0] for each in (even, gamma))
    beyond = np.where((at_end > 0) | (pair_at_end >= 0), at_end, 0)
    tau = np.maximum(2 * monotone - 1 + beyond, 1 / np.log10(chains * draws))
    moves = np.ptp(x, axis=(1, 2)) >= SAME_RANGE
    return np.asarray(np.where(moves, chains * draws / tau, chains * draws))


def standard_errors(values: np.ndarray) -> np.ndarray:
    """Return standard errors of the means of values by (chain, draw, …), from the means of blocks of draws."""
    chains, draws = values.shape[:2]
    blocks = min(ERROR_BLOCKS, draws)
    length = draws // blocks
    means = values[:, : blocks * length].reshape(chains, blocks, length, *values.shape[2:]).mean(axis=2)
    flat = means.reshape(chains * blocks, *values.shape[2:])
    return np.asarray(flat.std(axis=0, ddof=min(1, len(flat) - 1)) / np.sqrt(len(flat)))


def watched(sizes: Sequence[int], most: int = WATCHED_ENTRIES, all_up_to: int = WATCH_ALL_UP_TO) -> np.ndarray:
    """Choose entries of parameters of these sizes: all or, if there are too many, some of each at random. Small ones
    are taken whole: a single scale beside large arrays of effects is what most often does not mix."""
    if sum(sizes) <= all_up_to:
        return np.arange(sum(sizes))
    rng, chosen, room = np.random.default_rng(0), [], most
    begins = np.cumsum([0, *sizes])
    for done, i in enumerate(sorted(range(len(sizes)), key=lambda i: sizes[i])):
        here = min(sizes[i], room // (len(sizes) - done))
        chosen.append(begins[i] + rng.choice(sizes[i], here, replace=False))
        room -= here
    return np.sort(np.concatenate(chosen))

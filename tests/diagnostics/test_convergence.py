"""Effective sample sizes and R-hat: ArviZ's own numbers, and right on draws whose autocorrelation is known."""

import warnings

import arviz_stats
import numpy as np
import pytest
import xarray

from isotherm.diagnostics.convergence import Convergence, convergence, watched

RNG = np.random.default_rng(0)


def autoregressive(phi, chains, draws):
    """x_t = φ x_{t−1} + √(1 − φ²) ε, from its stationary law N(0, 1): effective sample size n (1 − φ)/(1 + φ)."""
    x = np.empty((chains, draws))
    x[:, 0] = RNG.standard_normal(chains)
    for t in range(1, draws):
        x[:, t] = phi * x[:, t - 1] + np.sqrt(1 - phi**2) * RNG.standard_normal(chains)
    return x


DRAWS = np.stack([autoregressive(0.5, 4, 500), autoregressive(0.9, 4, 500) ** 3, RNG.standard_normal((4, 500))], axis=2)


def arvizs(draws):
    """The same by ArviZ, a parameter at a time; R-hat of one chain is that of its halves."""
    tree = xarray.DataTree.from_dict({"posterior": xarray.Dataset({"x": (("chain", "draw", "k"), draws)})})
    half = draws.shape[1] // 2
    chains = draws if len(draws) > 1 else draws[:, : 2 * half].reshape(2, half, -1)
    halves = xarray.DataTree.from_dict({"posterior": xarray.Dataset({"x": (("chain", "draw", "k"), chains)})})
    with np.errstate(all="ignore"):
        bulk, tail = arviz_stats.ess(tree, method="bulk").x, arviz_stats.ess(tree, method="tail", prob=(0.05, 0.95)).x
        return Convergence(bulk.values, tail.values, arviz_stats.rhat(halves).x.values)


def test_these_are_arvizs_numbers():
    found = convergence(DRAWS)
    for mine, theirs in zip(found, arvizs(DRAWS), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    np.testing.assert_array_equal(found.least_ess, np.minimum(found.ess_bulk, found.ess_tail))


@pytest.mark.parametrize("chains", [1, 2, 5])
@pytest.mark.parametrize("draws", [4, 5, 7, 8, 9, 10, 11, 50, 101])
def test_also_of_few_draws_of_ties_and_of_chains_apart(chains, draws):
    """Wherever the sum over lags may end, and where numbers are 0/0; rounding of Fourier transforms is 1e-15."""
    parts = [autoregressive(phi, chains, draws) for phi in (-0.9, 0.0, 0.9, 0.99)]
    apart = parts[1] + 3 * np.arange(chains)[:, None]
    x = np.stack([*parts, apart, np.round(parts[2]), np.ones((chains, draws))], axis=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ's, of 0/0
        expected = arvizs(x)
    for mine, theirs in zip(convergence(x), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


def test_more_parameters_than_are_looked_at_together(monkeypatch):
    together = convergence(DRAWS)
    monkeypatch.setattr("isotherm.diagnostics.convergence.BLOCK_DRAWS", 1)
    for mine, theirs in zip(convergence(DRAWS), together, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_draws_that_are_not_finite_have_no_numbers():
    draws = RNG.standard_normal((4, 100, 2))
    draws[1, 3, 0] = np.inf
    found = convergence(draws)
    assert np.isnan([each[0] for each in found]).all()
    assert np.isfinite([each[1] for each in found]).all()
    assert np.isnan(convergence(draws[:, :3])).all()


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_effective_draws_where_they_are_known(phi):
    """4 × 10,000 draws know their autocorrelation time to some percent: 15 % is three or more of its errors."""
    (found,) = convergence(autoregressive(phi, 4, 10_000)[..., None]).ess_bulk
    assert found == pytest.approx(40_000 * (1 - phi) / (1 + phi), rel=0.15)


def test_chains_that_disagree_are_seen():
    """Two of four half a standard deviation apart: R-hat = √(1 + Var of the means) or so, and few effective draws."""
    draws = RNG.standard_normal((4, 1000, 1))
    assert convergence(draws).r_hat[0] < 1.01
    draws[2:] += 0.5
    found = convergence(draws)
    assert found.r_hat[0] == pytest.approx(np.sqrt(1 + 0.25 * 1 / 3), abs=0.02)
    assert found.least_ess[0] < 100


def test_one_chain_is_compared_with_itself():
    draws = RNG.standard_normal((1, 1001, 2))
    draws[0, 600:, 1] += 1
    found = convergence(draws)
    assert found.r_hat[0] < 1.01
    assert found.r_hat[1] > 1.1
    np.testing.assert_allclose(found.r_hat, convergence(draws[0, :1000].reshape(2, 500, 2)).r_hat, rtol=1e-12)


def test_a_parameter_that_never_moves_has_no_number_to_fail_on():
    """And nothing is warned of. ArviZ gives all draws for it."""
    found = convergence(np.concatenate([np.ones((4, 100, 1)), RNG.standard_normal((4, 100, 1))], axis=2))
    assert not found.least_ess[0] < 400
    assert np.isfinite(found.least_ess[1])


def test_float32_draws_are_looked_at_in_float64():
    """A mean of 1e4 with a spread of 1 leaves 1e-3 of it in float32, and squares of it nothing."""
    draws = (1e4 + RNG.standard_normal((4, 500, 1))).astype(np.float32)
    np.testing.assert_array_equal(convergence(draws).r_hat, convergence(draws.astype(np.float64)).r_hat)


def test_refused():
    with pytest.raises(ValueError, match=r"draws must have the axes chain, draw and parameter, got shape \(4, 100\)"):
        convergence(np.zeros((4, 100)))


def test_least_is_of_bulk_and_tail():
    np.testing.assert_array_equal(
        Convergence(np.array([1.0, 9.0]), np.array([5.0, 2.0]), np.ones(2)).least_ess, [1.0, 2.0]
    )


def test_all_parameters_are_watched_unless_there_are_thousands():
    np.testing.assert_array_equal(watched([4000, 96]), np.arange(4096))
    some = watched([100_000])
    assert len(np.unique(some)) == 1024
    assert (np.diff(some) > 0).all()
    assert some.max() > 90_000
    np.testing.assert_array_equal(some, watched([100_000]))


def test_small_parameters_are_watched_whole():
    some = watched([50_000, 1, 100, 50_000])
    assert len(np.unique(some)) == 1024
    assert set(range(50_000, 50_101)) < set(some)
    assert (some < 50_000).sum() == 461


def test_of_very_many_parameters_some_are_watched():
    assert len(watched([1] * 5000)) == 1024

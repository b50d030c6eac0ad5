"""Estimates of S over batches, and functions of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from isotherm.covariance import Dense, Diagonal, LowRank, running, windowed
from isotherm.posterior import Covariance

d, n = 12, 200


def batch(seed, spread):
    """The covariance of n random gradients whose own covariance is diag(spread²)."""
    g = jnp.asarray(np.random.default_rng(seed).standard_normal((n, d)) * spread)
    return Covariance(1 / (n - 1), lambda v: g @ v, lambda u: u @ g, lambda: g)


SPREAD = np.array([30.0, 20.0, 12.0, 8.0] + [1.0] * (d - 4))


def estimate(kind, batches, rank=4, window=20.0, spread=SPREAD):
    found = kind.first(batch(0, spread), jnp.zeros(d), rank, jax.random.key(0))
    for seed in range(1, batches):
        found = found.renewed(batch(seed, spread), window, jax.random.key(seed))
    return found


def matrix(found):
    """The estimate as a matrix, column by column."""
    return np.stack([np.asarray(found.apply([lambda s: s], column)[0]) for column in jnp.eye(d)])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_functions_are_those_of_the_matrix(kind):
    found = estimate(kind, 5)
    S = matrix(found)
    np.testing.assert_allclose(S, S.T, atol=1e-9)
    v = np.random.default_rng(1).standard_normal(d)
    half, root = found.apply([lambda s: jnp.exp(-0.01 * s), jnp.sqrt], jnp.asarray(v))
    np.testing.assert_allclose(half, scipy.linalg.expm(-0.01 * S) @ v, atol=1e-9)
    np.testing.assert_allclose(root, scipy.linalg.sqrtm(S).real @ v, atol=1e-7)


@pytest.mark.usefixtures("float64")
def test_dense_is_the_weighted_average_itself():
    window = 3.0
    S = np.asarray(batch(0, SPREAD).dense())
    for t in range(2, 6):
        kappa = max(2 / (t + 1), 1 / window)
        S = (1 - kappa) * S + kappa * np.asarray(batch(t - 1, SPREAD).dense())
    np.testing.assert_allclose(matrix(estimate(Dense, 5, window=window)), S, rtol=1e-10, atol=1e-10 * S.max())


@pytest.mark.usefixtures("float64")
def test_low_rank_finds_the_leading_directions_and_the_mean_of_the_rest():
    """λ to the sampling error of a window of 20 batches of 200, five times √(2/4000) = 11 %; ρ likewise."""
    found = estimate(LowRank, 40)
    order = np.argsort(-np.asarray(found.values))
    np.testing.assert_allclose(np.asarray(found.values)[order], SPREAD[:4] ** 2, rtol=0.11)
    np.testing.assert_allclose(np.abs(np.asarray(found.basis)[order][:, :4]), np.eye(4), atol=0.1)
    np.testing.assert_allclose(found.basis @ found.basis.T, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(found.rest, 1.0, rtol=0.11)
    assert found.middle() == found.rest
    assert found.unseen() == found.values.min()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_what_was_long_ago_is_forgotten(kind):
    """A start with a hundredfold covariance has left less than 1 % after five windows: (1 − 1/w)^(5w) = 0.7 %."""
    found = kind.first(batch(0, 10 * SPREAD), jnp.zeros(d), 4, jax.random.key(0))
    for seed in range(1, 25):
        found = found.renewed(batch(seed, SPREAD), 5.0, jax.random.key(seed))
    np.testing.assert_allclose(found.largest(), SPREAD[0] ** 2, rtol=0.35)  # a window of 5 batches, and 0.7 of 100
    assert found.middle() < 3


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_low_rank_of_few_parameters(size):
    g = jnp.asarray(np.random.default_rng(2).standard_normal((30, size)), jnp.float32)
    S = Covariance(1 / 29, lambda v: g @ v, lambda u: u @ g, lambda: g)
    found = LowRank.first(S, jnp.zeros(size), 32, jax.random.key(0))
    for i in range(10):
        found = found.renewed(S, 20.0, jax.random.key(i))
    assert all(np.isfinite(leaf).all() for leaf in found)
    assert found.values.size < size
    with pytest.raises(ValueError, match="needs at least 2 parameters, got 1"):
        LowRank.first(S, jnp.zeros(1), 32, jax.random.key(0))


def test_no_noise_at_all_is_a_covariance_of_zero():
    g = jnp.zeros((5, 6))
    S = Covariance(0.0, lambda v: g @ v, lambda u: u @ g, lambda: g)
    for kind in (Dense, LowRank, Diagonal):
        found = kind.first(S, jnp.zeros(6), 4, jax.random.key(0)).renewed(S, 20.0, jax.random.key(1))
        np.testing.assert_allclose(found.apply([lambda s: jnp.exp(-s)], jnp.ones(6))[0], 1.0, rtol=1e-5)


def test_weights():
    assert running(jnp.float32(4.0)) == 0.25
    assert windowed(jnp.float32(1.0), 20.0) == 1.0
    np.testing.assert_allclose(windowed(jnp.float32(1000.0), 20.0), 0.05)

"""Estimates of S over batches, and functions of them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from isotherm.dynamics.covariance import Dense, Diagonal, LowRank, running, windowed
from isotherm.posterior import Covariance

d, n = 12, 200


def gradients(seed, spread, size=n):
    """Random gradients whose covariance is diag(spread²)."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal((size, len(spread))) * spread)


def covariance(g):
    return Covariance(1 / (len(g) - 1), lambda v: g @ v, lambda u: u @ g, lambda: g)


@partial(jax.jit, static_argnums=(0, 2))
def first(kind, g, rank):
    return kind.first(covariance(g), jnp.zeros(g.shape[1:]), rank, jax.random.key(0))


@jax.jit
def renewed(estimate, g, window, key, due=True):
    return estimate.renewed(jnp.asarray(due), covariance(g), window, key)


SPREAD = np.array([30.0, 20.0, 12.0, 8.0] + [1.0] * (d - 4))


def estimate(kind, batches, rank=4, window=20.0):
    found = first(kind, gradients(0, SPREAD), rank)
    for seed in range(1, batches):
        found = renewed(found, gradients(seed, SPREAD), window, jax.random.key(seed))
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
    S = np.asarray(covariance(gradients(0, SPREAD)).dense())
    for t in range(2, 6):
        kappa = max(2 / (t + 1), 1 / window)
        S = (1 - kappa) * S + kappa * np.asarray(covariance(gradients(t - 1, SPREAD)).dense())
    np.testing.assert_allclose(matrix(estimate(Dense, 5, window=window)), S, rtol=1e-10, atol=1e-10 * S.max())


@pytest.mark.usefixtures("float64")
def test_low_rank_finds_the_leading_directions_and_the_mean_of_the_rest():
    """λ to the sampling error of a window of 20 batches of 200, five times √(2/4000) = 11 %; ρ likewise. The strong
    directions to 0.1 rad."""
    found = estimate(LowRank, 400)
    np.testing.assert_allclose(found.values[::-1], SPREAD[:4] ** 2, rtol=0.11)
    leading = np.asarray(found.vectors.T @ found.basis)[::-1]
    np.testing.assert_allclose(np.abs(leading[:, :4]), np.eye(4), atol=0.1)
    np.testing.assert_allclose(found.basis @ found.basis.T, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(found.rest, 1.0, rtol=0.11)
    assert found.middle() == found.rest
    strongest, mean = found.unseen()
    assert found.values.min() <= strongest <= SPREAD[2] ** 2
    assert mean == found.rest


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_what_was_long_ago_is_forgotten(kind):
    """A start with a hundredfold covariance has left less than 1 % after five windows, (1 − 1/w)^(5w) = 0.4 %."""
    found = first(kind, gradients(0, 10 * SPREAD), 4)
    for seed in range(1, 200):
        found = renewed(found, gradients(seed, SPREAD), 5.0, jax.random.key(seed))
    np.testing.assert_allclose(
        found.largest(), SPREAD[0] ** 2, rtol=0.5
    )  # a window of five batches, and 0.4 % of a hundredfold
    assert found.middle() < 3


@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_what_is_not_due_is_not_done(kind):
    before = estimate(kind, 3)
    after = renewed(before, gradients(9, SPREAD), 20.0, jax.random.key(9), False)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_low_rank_of_few_parameters(size):
    g = gradients(2, np.ones(size, np.float32), 30)
    found = first(LowRank, g, 32)
    for i in range(10):
        found = renewed(found, g, 20.0, jax.random.key(i))
    assert all(np.isfinite(leaf).all() for leaf in found)
    assert found.values.size < size


def test_low_rank_of_one_parameter_is_refused():
    with pytest.raises(ValueError, match="needs at least 2 parameters, got 1"):
        first(LowRank, gradients(2, np.ones(1), 30), 32)


@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_no_noise_at_all_is_a_covariance_of_zero(kind):
    g = jnp.zeros((5, 6))
    found = renewed(first(kind, g, 4), g, 20.0, jax.random.key(1))
    np.testing.assert_allclose(found.apply([lambda s: jnp.exp(-s)], jnp.ones(6))[0], 1.0, rtol=1e-5)


def test_weights():
    assert running(jnp.float32(4.0)) == 0.25
    assert windowed(jnp.float32(1.0), 20.0) == 1.0
    np.testing.assert_allclose(windowed(jnp.float32(1000.0), 20.0), 0.05)

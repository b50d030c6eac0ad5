"""Estimates of S and K over batches, and before which steps they take up another one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.dynamics.covariance import Dense, Diagonal, Local, windowed
from isotherm.dynamics.low_rank import LowRank
from isotherm.targets.noisy import Covariance, Curvature

d, n = 12, 200


def gradients(seed, spread, size=n):
    """Random gradients whose covariance is diag(spread²)."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal((size, len(spread))) * spread)


def covariance(g):
    return Covariance(1 / (len(g) - 1), lambda v: g @ v, lambda u: u @ g, lambda: g)


RATIO, NOISE_WEIGHT, TRUE = 0.05, 0.02, jnp.array(True)


def local(g, K=None, sampled=0.0):
    """One batch; K, a matrix, is the curvature if it can be had."""
    return Local(covariance(g), None if K is None else Curvature(lambda v: K @ v), RATIO, NOISE_WEIGHT, sampled)


def first(kind, g, rank, K=None):
    return begin(kind, g, rank, K)


@partial(jax.jit, static_argnums=(0, 2))
def begin(kind, g, rank, K):
    return kind.first(local(g, K), jnp.zeros(g.shape[1:]), rank, jax.random.key(0))


def renewed(estimate, g, window, key, due=True, K=None):
    return renew(estimate, g, window, key, jnp.asarray(due), K)


@jax.jit  # called with all its arguments, in this order, so that one program serves every test
def renew(estimate, g, window, key, due, K):
    return estimate.renewed(due, due, local(g, K), window, key)


SPREAD = np.array([30.0, 20.0, 12.0, 8.0] + [1.0] * (d - 4))


def estimate(kind, batches, rank=4, window=20.0, K=None):
    found = first(kind, gradients(0, SPREAD), rank, K)
    for seed in range(0 if kind is Dense else 1, batches):  # of which "dense" has none at first
        found = renewed(found, gradients(seed, SPREAD), window, jax.random.key(seed), K=K)
    return found


def matrix(found, pick=lambda each: each.noise):
    """The estimate of S as a matrix, or what `pick` takes of its directions."""
    coordinates = map(np.asarray, found.rotated(jnp.eye(d)))
    scaled = tuple(
        jnp.asarray(np.asarray(pick(each)) * c) for each, c in zip(found.directions(), coordinates, strict=True)
    )
    return np.asarray(found.restored(scaled))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_coordinates_there_and_back(kind):
    """A vector returns as it was; its square and the trace are sums over the directions; S is symmetric."""
    found = estimate(kind, 5)
    S = matrix(found)
    np.testing.assert_allclose(S, S.T, atol=1e-9)
    rows = jnp.asarray(np.random.default_rng(1).standard_normal((3, d)))
    coordinates = found.rotated(rows)
    np.testing.assert_allclose(found.restored(coordinates), rows, atol=1e-12)
    directions = found.directions()
    squares = sum(s.sign * np.sum(np.asarray(c) ** 2, axis=1) for s, c in zip(directions, coordinates, strict=True))
    np.testing.assert_allclose(squares, np.sum(rows**2, axis=1), rtol=1e-12)
    np.testing.assert_allclose(sum(s.total(s.noise) for s in directions), np.trace(S), rtol=1e-12)


RANDOM = np.random.default_rng(5).standard_normal((d, d))
CURVED = RANDOM @ RANDOM.T + np.diag(np.arange(d))  # a curvature that does not commute with S


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("kind", "batches", "within"), [(Dense, 3, 1e-2), (LowRank, 200, 0.2), (Diagonal, 200, 0.2)])
def test_curvature_along_each_direction(kind, batches, within):
    """Of "dense" exactly; of the others within the error of the random vectors they look along."""
    found = estimate(kind, batches, K=jnp.asarray(CURVED), window=50.0)
    for s, axis in zip(found.directions()[:1], found.rotated(jnp.eye(d))[:1], strict=True):
        axis = np.asarray(axis) / np.linalg.norm(axis, axis=0)
        expected = np.einsum("ij,ik,kj->j", axis, CURVED, axis)
        np.testing.assert_allclose(s.curvature, expected, rtol=5 * within)
    strongest = np.linalg.eigvalsh(CURVED)[-1]
    assert (1 - within) * strongest <= found.strongest <= (1 + within) * strongest * (2 if kind is LowRank else 1)


@pytest.mark.usefixtures("float64")
def test_stiffness_is_the_curvature_that_the_noise_does_not_outweigh():
    found = estimate(Dense, 3, K=jnp.asarray(CURVED))
    expected = np.linalg.eigvalsh(CURVED - NOISE_WEIGHT * np.asarray(found.average))[-1]
    np.testing.assert_allclose(found.stiffness, expected, rtol=0.05)


@pytest.mark.usefixtures("float64")
def test_stiffness_of_low_rank_is_that_in_the_span_and_half_the_curvature_outside():
    """Within what a window of 20 batches says of S, and ten steps of the power method of K."""
    found = estimate(LowRank, 50, K=jnp.asarray(CURVED))
    Q = np.asarray(found.basis)
    P = np.eye(d) - Q.T @ Q
    inside = np.linalg.eigvalsh(Q @ (CURVED - NOISE_WEIGHT * np.diag(SPREAD**2)) @ Q.T)[-1]
    outside = np.linalg.eigvalsh(P @ CURVED @ P)[-1]
    np.testing.assert_allclose(found.stiffness, inside + 0.5 * outside, rtol=0.1)
    np.testing.assert_allclose(found.outside.strongest, outside, rtol=0.1)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("K", [None, np.full((d, d), np.nan)], ids=["none", "not finite"])
@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_without_second_derivatives_the_curvature_is_that_of_a_right_model(kind, K):
    found = estimate(kind, 3, K=None if K is None else jnp.asarray(K))
    for s in found.directions()[:1]:
        # The noise is with what an average of three batches leaves out; the diagonal is from random signs.
        close = {"rtol": 0.1} if kind is not Diagonal else {"rtol": 3, "atol": 30}
        np.testing.assert_allclose(s.curvature, RATIO * s.noise, **close)


@pytest.mark.usefixtures("float64")
def test_dense_is_the_weighted_average_itself():
    window = 3.0
    S = np.asarray(covariance(gradients(0, SPREAD)).dense())
    for t in range(2, 6):
        kappa = max(2 / (t + 1), 1 / window)
        S = (1 - kappa) * S + kappa * np.asarray(covariance(gradients(t - 1, SPREAD)).dense())
    np.testing.assert_allclose(estimate(Dense, 5, window=window).average, S, rtol=1e-10, atol=1e-10 * S.max())


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("tail", [30.0, 5.0], ids=["like Gaussian", "few rows have most"])
def test_dense_knows_what_an_average_over_few_rows_does_not_say(tail):
    """S = I from five rows a parameter and a batch. Each eigenvector of the average has a noise of exactly 1, the
    average's eigenvalues a harmonic mean of 1 − d/m: after four batches of Gaussian rows, of which the weights are such
    that m = 200, it is 0.94, and less where few rows have most of the gradient. What `directions` says is right within
    what 24 cases of 12 directions leave open."""
    renew_few = jax.jit(lambda found, g, key: found.renewed(TRUE, TRUE, local(g, sampled=d / 60), 20.0, key))
    said, raw = [], []
    for case in range(24):
        rng = np.random.default_rng(case)
        found = first(Dense, jnp.zeros((60, d)), 1)
        for batch in range(4):
            rows = rng.standard_normal((60, d)) * np.sqrt((tail - 2) / rng.chisquare(tail, (60, 1)))
            found = renew_few(found, jnp.asarray(rows), jax.random.key(batch))
        said.append(np.mean(1 / np.asarray(found.directions()[0].noise)))
        raw.append(np.mean(1 / np.asarray(found.values)))
    assert np.mean(raw) > (1.05 if tail > 10 else 1.08)
    error = np.std(said) / np.sqrt(len(said))
    np.testing.assert_allclose(np.mean(said), 1, atol=4 * error)
    assert 4 * error < np.mean(raw) - 1


@pytest.mark.usefixtures("float64")
def test_dense_forgets_the_noise_of_the_way_to_the_mode():
    """A batch with a hundredth of the noise that is remembered begins a new average."""
    found = renewed(estimate(Dense, 5), 0.1 * gradients(9, SPREAD), 20.0, jax.random.key(9))
    np.testing.assert_allclose(matrix(found), 0.01 * np.asarray(covariance(gradients(9, SPREAD)).dense()), atol=1e-9)
    assert found.renewals == 1


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


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("rows", [pytest.param(20, marks=pytest.mark.slow), n])
def test_low_rank_knows_how_much_noise_differs_outside_its_span(rows):
    """Of eigenvalues 25, 4 and six 1 the mean is 35/8 and the standard deviation 7.85; from 20 rows a batch as from
    200, though 20 rows alone would spread equal eigenvalues by √(8/20) of their mean. v·Sv varies by 0.8 of its mean
    over random directions, so 1,000 of them leave an error of 3 %; v·S²v by 1.1, and has a square root here."""
    spread = np.array([90.0, 80.0, 70.0, 60.0, 5.0, 2.0] + [1.0] * (d - 6))
    found = first(LowRank, gradients(0, spread, rows), 4)
    for seed in range(1, 2000):
        found = renewed(found, gradients(seed, spread, rows), 1000.0, jax.random.key(seed))
    values = spread[4:] ** 2
    np.testing.assert_allclose(found.rest, values.mean(), rtol=0.1)
    np.testing.assert_allclose(found.unseen()[1], values.std() / values.mean(), rtol=0.1)


@pytest.mark.usefixtures("float64")
def test_noise_that_is_the_same_outside_the_span_has_no_spread():
    assert estimate(LowRank, 400).unseen()[1] < 0.2  # the square root of an error of some percent


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_what_was_long_ago_is_forgotten(kind):
    """A start with a hundredfold covariance has left less than 1 % after five windows, (1 − 1/w)^(5w) = 0.4 %."""
    found = first(kind, gradients(0, 10 * SPREAD), 4)
    for seed in range(1, 200):
        found = renewed(found, gradients(seed, SPREAD), 5.0, jax.random.key(seed))
    largest = max(jnp.max(s.noise) for s in found.directions())
    np.testing.assert_allclose(largest, SPREAD[0] ** 2, rtol=0.5)  # a window of five batches, 0.4 % of a hundredfold
    assert found.middle() < 3


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_what_is_not_due_is_not_done(kind):
    before = estimate(kind, 3)
    after = renewed(before, gradients(9, SPREAD), 20.0, jax.random.key(9), False)
    assert all(map(np.array_equal, jax.tree.leaves(before), jax.tree.leaves(after)))


@pytest.mark.parametrize("size", [2, *(pytest.param(size, marks=pytest.mark.slow) for size in (3, 5, 9))])
def test_low_rank_of_few_parameters(size):
    g = gradients(2, np.ones(size, np.float32), 30)
    found = first(LowRank, g, 32)
    for i in range(10):
        found = renewed(found, g, 20.0, jax.random.key(i))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    assert found.values.size < size


def test_low_rank_of_one_parameter_is_refused():
    with pytest.raises(ValueError, match="needs at least 2 parameters, got 1"):
        first(LowRank, gradients(2, np.ones(1), 30), 32)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_no_noise_at_all_is_a_covariance_of_zero(kind):
    g = jnp.zeros((n, d))
    found = renewed(first(kind, g, 4), g, 20.0, jax.random.key(1))
    for s in found.directions():
        np.testing.assert_allclose(s.noise, 0, atol=1e-5)
    assert [float(number) for number in jax.jit(lambda found: found.unseen())(found)] == [0, 0]


def test_weights():
    assert windowed(jnp.float32(1.0), 20.0) == 1.0
    np.testing.assert_allclose(windowed(jnp.float32(1000.0), 20.0), 0.05)


@pytest.mark.parametrize("kind", [Dense, LowRank, Diagonal])
def test_noise_whose_square_float32_does_not_know(kind):
    """Of 1e22: a linear regression on large numbers. The estimate is that of the same noise in other units."""

    def after(unit):
        found = first(kind, (unit * gradients(0, SPREAD)).astype(jnp.float32), 4)
        for seed in range(1, 12):
            g = (unit * gradients(seed, SPREAD)).astype(jnp.float32)
            found = renewed(found, g, 20.0, jax.random.key(seed))
        return found

    large, small = after(2.0**36), after(1.0)
    for s, right in zip(large.directions(), small.directions(), strict=True):
        np.testing.assert_allclose(s.noise / 2.0**72, right.noise, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(s.curvature / 2.0**72, right.curvature, rtol=1e-3, atol=1e-3)
    for name in ("stiffness", "strongest", "ceiling"):
        np.testing.assert_allclose(getattr(large, name) / 2.0**72, getattr(small, name), rtol=1e-3)

"""The noise that is measured is that of the force at typical draws; rows are drawn by leverage."""

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data.batches import make_table
from isotherm.targets.forces import NOISE_POSITIONS, measure_noise, probabilities_of, weighted_rows
from isotherm.targets.target import UNKNOWN, Anchored, Coordinates

RNG = np.random.default_rng(3)
DATA = {"x": RNG.standard_normal((400, 2)).astype(np.float32)}


def anchored(log_likelihood, hessian, table=None):
    """At 0, with a flat prior and L = I/20, so that Σ∇² = −400 I is −I in z."""
    at = Coordinates(jnp.zeros(2), jnp.eye(2) / 20)
    rows = make_table(np.ones(400)) if table is None else table
    known = {"coordinates": at, "gradient": jnp.zeros(2), "hessian": hessian, "rows": rows, "findings": UNKNOWN}
    return Anchored(log_likelihood, lambda t: 0.0 * jnp.sum(t), **known)


def measure(anchored):
    """The noise at typical draws."""
    rng = np.random.default_rng(0)
    return measure_noise(anchored, DATA, rng, rng.standard_normal((NOISE_POSITIONS, 2)))


def cross(theta, example):
    """Its gradient's second derivative is x_i times one, so that S is known."""
    return -0.5 * jnp.sum(theta**2) + jnp.sum(example["x"] * theta**2) / 2


def test_the_noise_of_a_model_where_it_is_known():
    """To first order ∇(ℓ_i − T_i) = (x_i − 1) δ, and one row stands for 400: S = (400/20²)² E[z²] Cov(x) = diag Var(x)
    in the mean over z, whose largest entry 32 positions of 500 rows know to √(2/32), five times."""
    found = measure(anchored(cross, None))
    largest = DATA["x"].var(axis=0).max()
    assert abs(found.largest / largest - 1) < 5 * np.sqrt(2 / 32)


def test_no_noise_and_no_bend_where_all_is_exact():
    """Of a quadratic with the second order taken out nothing is left but rounding."""
    hessian = jnp.asarray(-np.eye(2) + np.diag(DATA["x"].mean(axis=0)), jnp.float32)
    found = measure(anchored(cross, hessian))
    assert found.largest < 1e-6
    expected = np.sqrt(np.mean(DATA["x"].mean(axis=0) ** 2))  # the force is that much off −z, which is known to √(2/32)
    np.testing.assert_allclose(found.bend, expected, rtol=5 * np.sqrt(2 / 64))


def test_bend_is_how_far_the_force_is_from_a_gaussians():
    """Of −Σ 400 |z|⁴/400 more: the force is off by −4 |z|² z, whose root mean square is 4 √(E|z|⁶/2) = 4 √24 in two
    dimensions; 32 positions know it to a factor of two."""

    def bent(theta, example):
        square = jnp.sum((20 * theta) ** 2)
        return (-0.5 * square - square**2) / 400 + 0.0 * example["x"][0]

    found = measure(anchored(bent, None))
    assert 0.5 < found.bend / (4 * np.sqrt(24)) < 2
    straight = measure(anchored(lambda t, e: -0.5 * jnp.sum(t**2) + 0.0 * e["x"][0], None))
    assert straight.bend < 1e-2  # rounding alone


def test_a_force_that_is_not_finite_is_infinitely_noisy():
    found = measure(anchored(lambda t, e: jnp.log(t[0]) * e["x"][0], None))
    assert found.largest == np.inf


def test_rows_are_drawn_by_leverage():
    """p ∝ ¼ + ¾ of the leverage over its mean, so that no weight is above 4."""
    leverages = RNG.pareto(1.0, 400).astype(np.float32)
    weights = np.float64(make_table(probabilities_of(leverages)).weights)
    np.testing.assert_allclose(1 / weights, 0.25 + 0.75 * leverages / leverages.mean(dtype=np.float64), rtol=1e-5)
    assert weights.max() <= 4
    for useless in (np.zeros(5), np.array([1.0, np.nan, 1.0])):
        np.testing.assert_array_equal(probabilities_of(useless), 1)


def test_weighted_rows():
    """With the table's probabilities (χ² below five standard deviations above its mean), each with its own weight."""
    p = np.array([1.0, 2, 3, 4, 10])
    data = {"row": np.arange(5), "x": 2.0 * np.arange(5)}
    some, weights = weighted_rows(data, make_table(p), 50_000, np.random.default_rng(1))
    np.testing.assert_array_equal(some["x"], 2.0 * some["row"])
    np.testing.assert_allclose(weights, (4 / p)[some["row"]], rtol=1e-6)
    expected = 50_000 * p / 20
    assert ((np.bincount(some["row"]) - expected) ** 2 / expected).sum() < 4 + 5 * np.sqrt(8)
    assert isinstance(jax.tree.leaves(some)[0], np.ndarray)

"""A second mode is seen where there is one, and none where there is none."""

import jax.numpy as jnp
import numpy as np

import isotherm
from isotherm.targets.newton import Target, climb
from isotherm.targets.other_modes import another_mode

RNG = np.random.default_rng(4)
MIXED = np.concatenate([RNG.normal(-2, 1, 150), RNG.normal(2, 1, 150)]).astype(np.float32)


def mixture(means, x):
    """Of N(m₀, 1) and N(m₁, 1), half each: the labels can be exchanged."""
    return jnp.logaddexp(-0.5 * (x - means[0]) ** 2, -0.5 * (x - means[1]) ** 2)


MIXTURE = isotherm.Posterior(mixture, lambda means: -0.5 * jnp.sum(means**2) / 25)


def looked_for(sums, posterior, data, init, some_rows=slice(None)):
    rows, at = sums(posterior, data, init)
    summit = climb(Target(rows), at, 1e-2)
    few = data[some_rows] if isinstance(data, np.ndarray) else {name: col[some_rows] for name, col in data.items()}
    some, _ = sums(posterior, few, init)
    return summit, another_mode(some, rows, summit.at, np.random.default_rng(0))


def test_the_other_mode_of_a_mixture(sums):
    """It is the one that is known with its labels exchanged, to half a standard deviation of 0.08 or so."""
    summit, found = looked_for(sums, MIXTURE, MIXED, np.float32([-1.0, 1.0]))
    np.testing.assert_allclose(found, summit.at.origin[::-1], atol=0.04)


def test_it_is_found_on_some_rows_too(sums):
    """Of which the mode is off by √5 standard deviations of all rows, twice that at most."""
    summit, found = looked_for(sums, MIXTURE, MIXED, np.float32([-1.0, 1.0]), slice(None, None, 5))
    np.testing.assert_allclose(found, summit.at.origin[::-1], atol=0.4)


def test_a_logistic_regression_has_one_mode(sums, badly_scaled):
    _, found = looked_for(sums, *badly_scaled)
    assert found is None


def test_a_mode_that_is_far_lower_does_not_count(sums):
    """A second mode exp(−60) times as high: 300 · 0.2."""
    posterior = isotherm.Posterior(
        lambda t, x: jnp.logaddexp(-0.5 * jnp.sum((t - 1) ** 2), -0.2 - 0.5 * jnp.sum((t + 1) ** 2)) * 20 * x,
        lambda t: -1e-6 * jnp.sum(t**2),
    )
    ones = np.ones(300, np.float32)
    assert looked_for(sums, posterior, ones, np.float32([0.5]))[1] is None

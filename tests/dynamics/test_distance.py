"""How far from the mode a chain is taken to be."""

import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.dynamics.distance import HOME_STEPS, averaging_window, curvature_trust, is_measured, measured_inflation
from isotherm.targets.noisy import Sampling

d = 50
SAMPLING = Sampling(population=1000, rows=100, size=100)


def inflation(estimate, distance, trust=2.0**40, sampling=SAMPLING, temperature=1.0, momentum=0.0):
    """At `distance` standard deviations from the mode of a Gaussian along each direction."""
    K = estimate.curvature
    position = distance * jnp.sqrt(temperature / K)
    p = momentum * jnp.ones(d)
    found = measured_inflation(
        estimate, -K * position, p, sampling, temperature, estimate.ratio, jnp.asarray(trust, float)
    )
    return float(found)


@pytest.fixture
def estimate(known):
    return known(jnp.full(d, 0.1), jnp.geomspace(0.1, 10, d))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("distance", [10, 50])
def test_a_quarter_of_the_mean_square_distance_is_allowed(estimate, distance, temperature):
    """Less what the noise of this force, all of S, adds to it; p = 0 counts as one less than in equilibrium."""
    noise = float(jnp.mean(estimate.noise / estimate.curvature)) / temperature
    expected = (distance**2 - 1 - noise) / 4
    np.testing.assert_allclose(inflation(estimate, distance, temperature=temperature), expected, rtol=1e-4)


def test_the_momentum_counts_too(estimate):
    np.testing.assert_allclose(inflation(estimate, 50, momentum=20) - inflation(estimate, 50), 100, rtol=1e-3)


@pytest.mark.parametrize("distance", [0, 1, 3])
def test_near_the_mode_there_is_none(estimate, distance):
    assert inflation(estimate, distance) == 1


def test_what_chance_could_make_is_not_believed(known):
    """A noise of 1000 posterior variances, all of S, has a standard error of 1000·√(2/d): four of them are 800."""
    noisy = known(jnp.full(d, 1000.0), jnp.ones(d))
    assert inflation(noisy, np.sqrt(1000 + 700)) == 1
    np.testing.assert_allclose(inflation(noisy, np.sqrt(1000 + 900)), 899 / 4, rtol=1e-3)


def test_it_is_at_most_that_of_the_prior(estimate):
    assert inflation(estimate, 1e4) == SAMPLING.population


def test_at_first_the_curvature_is_that_of_a_right_model_if_that_is_more(known):
    """K is 100 times too small: the distance is taken for a tenth of it, until K is trusted."""
    estimate = known(jnp.full(d, 1.0), jnp.full(d, 0.01), ratio=1.0)
    at_first = inflation(estimate, 50, 1)
    np.testing.assert_allclose(at_first, 50**2 / 100 - 1, rtol=1e-3)
    np.testing.assert_allclose(inflation(estimate, 50, 2), 2 * at_first, rtol=1e-3)
    np.testing.assert_allclose(inflation(estimate, 50), (50**2 - 101) / 4, rtol=1e-3)


def test_an_estimate_that_does_not_measure_distances_is_not_asked(estimate):
    assert inflation(estimate._replace(knows_all=False), 50) == 1


def test_when_it_is_measured():
    far, near, end = jnp.array(2.0), jnp.array(1.0), jnp.int32(HOME_STEPS)
    cases = [(0, True, near), (10, True, far), (10, False, far), (10, True, near), (end, True, far)]
    asked = [bool(is_measured(jnp.int32(step), jnp.array(due), each)) for step, due, each in cases]
    assert asked == [True, True, False, False, False]


def test_far_away_the_past_is_soon_forgotten():
    windows = [float(averaging_window(window, jnp.float32(each))) for window in (2, 20) for each in (1, 3)]
    assert windows == [2, 2, 20, 4]


def test_the_trust_in_the_curvature_doubles():
    assert [float(curvature_trust(jnp.int32(step), 25, jnp.float32)) for step in (0, 25, 100)] == [1, 2, 16]

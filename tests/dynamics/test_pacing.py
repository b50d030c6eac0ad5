"""How step size, friction, thermal mass, mass and the distance from the mode follow from S and K."""

import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.dynamics import flows, pacing
from isotherm.dynamics.pacing import CURVATURE_BOUND, IDENTITY_BOUND, Rules, inverse_root_mass, positive
from isotherm.targets.noisy import Sampling

AUTO = Rules(None, None, None, 1.0, balances_friction=True, bound=CURVATURE_BOUND, curvature_ratio=0.0)


def paced(estimate, rules=AUTO, inflation=1.0, trust=2.0**40):
    return rules.pace(estimate, jnp.asarray(inflation, float), jnp.asarray(trust, float))


@pytest.mark.parametrize(("T", "inflation"), [(1.0, 1.0), (0.7, 1.0), (1.0, 9.0)])
def test_the_noise_bounds_the_step_size(known, T, inflation):
    """(h²/2)βλ = 2 for the λ in the middle; T times the inflation stands for 1/β."""
    found = paced(known([1.0, 16.0, 1e4], [1e-6] * 3), AUTO._replace(temperature=T), inflation)
    np.testing.assert_allclose(found.step_size, np.sqrt(4 * T * inflation / 16), rtol=1e-6)


@pytest.mark.parametrize("bound", [CURVATURE_BOUND, IDENTITY_BOUND])
def test_the_curvature_bounds_the_step_size(known, bound):
    found = paced(known([1e-9] * 3, [0.1, 4.0, 25.0]), AUTO._replace(bound=bound))
    np.testing.assert_allclose(found.step_size, np.sqrt(bound / 25), rtol=1e-6)


@pytest.mark.parametrize("given", [None, 1.0])
def test_the_step_size_is_what_is_stable_without_friction_until_the_curvature_is_trusted(known, given):
    """K is not known yet: that of a right model, a tenth of S, counts."""
    estimate = known([100.0] * 3, [1e-6] * 3, ratio=0.1)
    rules = AUTO._replace(step_size=None if given is None else jnp.asarray(given))
    sizes = [float(paced(estimate, rules, trust=trust).step_size) for trust in (1, 2, 2**20)]
    expected = [np.sqrt(0.25 / 10), np.sqrt(0.25 / 10) * 2, given or np.sqrt(4 / 100)]
    np.testing.assert_allclose(sizes, np.minimum(expected, expected[2]), rtol=1e-6)


def test_the_noise_friction_keeps_a_gaussian_as_it_is(known):
    noise, curvature = [1.0, 30.0, 500.0], [0.5, 1.0, 3.0]
    found = paced(known(noise, curvature), AUTO._replace(friction=2.0))
    h, loss = found.step_size, -jnp.expm1(-2 * found.step_size)
    x = flows.noise_balanced_by(found.noise_friction[0], h * h * jnp.asarray(curvature), loss)
    np.testing.assert_allclose(x, h * h / 2 * jnp.asarray(noise), rtol=1e-3)
    energy = jnp.sum(flows.kinetic_energy(found.noise_friction[0], loss))
    np.testing.assert_allclose(found.energy, energy, rtol=1e-6)


def test_far_away_friction_is_at_least_half_of_what_damps_best(known):
    estimate = known([1.0, 1.0], [4.0, 100.0])
    found = paced(estimate, inflation=1e6)
    np.testing.assert_allclose(found.noise_friction[0], found.step_size * np.array([2.0, 10.0]), rtol=1e-5)
    assert np.all(paced(estimate).noise_friction[0] < found.noise_friction[0])


@pytest.mark.parametrize(("spread", "ratio"), [(0.1, 2 * 0.1**0.5), (0.5, 5.0), (25.0, 10.0), (1e6, 64.0)])
def test_friction_outweighs_the_noise_that_a_low_rank_estimate_leaves_out(known, spread, ratio):
    """A is r times the noise friction of the mean, (h/2)βρ, where that is more than 1."""
    ratio = max(ratio, min(spread / 0.1, 5.0))
    estimate = known([1e6] * 3, [1.0] * 3, rest=1e6, spread=spread)
    found = paced(estimate, AUTO._replace(step_size=jnp.asarray(0.001)))
    np.testing.assert_allclose(found.friction, max(1, ratio * 0.001 / 2 * 1e6), rtol=1e-5)


def test_a_friction_that_is_given_bounds_the_step_size(known):
    """r(h/2)βρ is at most A."""
    estimate = known([1e6] * 3, [1.0] * 3, rest=1e6, spread=0.5)
    found = paced(estimate, AUTO._replace(friction=2.0))
    np.testing.assert_allclose(5.0 * found.step_size / 2 * 1e6, 2.0, rtol=1e-5)
    assert float(found.friction) == 2


@pytest.mark.parametrize(("h", "T", "expected"), [(0.01, 1.0, 3.0), (1.0, 1.0, 250.0), (1.0, 0.7, 175.0)])
def test_the_thermal_mass_is_such_that_steps_resolve_it(known, h, T, expected):
    rules = AUTO._replace(step_size=jnp.asarray(h), temperature=T, bound=IDENTITY_BOUND)
    estimate = known([1.0] * 3, [1.0] * 3)
    np.testing.assert_allclose(paced(estimate, rules).thermal_mass, expected, rtol=1e-6)
    assert float(paced(estimate, rules._replace(thermal_mass=7.0)).thermal_mass) == 7


def test_other_schemes_do_without_the_correction_for_friction(known):
    estimate = known([10.0] * 3, [1.0] * 3)
    rules = AUTO._replace(step_size=jnp.asarray(0.3), balances_friction=False)
    one, other = (paced(estimate, rules._replace(friction=A)) for A in (1.0, 30.0))
    np.testing.assert_array_equal(one.noise_friction[0], other.noise_friction[0])


d = 50
SAMPLING = Sampling(population=1000, rows=100, size=100)


def inflation(estimate, distance, trust=2.0**40, sampling=SAMPLING, temperature=1.0, momentum=0.0):
    """At `distance` standard deviations from the mode of a Gaussian along each direction."""
    K = estimate.curvature
    position = distance * jnp.sqrt(temperature / K)
    p = momentum * jnp.ones(d)
    found = pacing.measured_inflation(
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
    far, near, end = jnp.array(2.0), jnp.array(1.0), jnp.int32(pacing.HOME_STEPS)
    cases = [(0, True, near), (10, True, far), (10, False, far), (10, True, near), (end, True, far)]
    asked = [bool(pacing.is_measured(jnp.int32(step), jnp.array(due), each)) for step, due, each in cases]
    assert asked == [True, True, False, False, False]


def test_far_away_the_past_is_soon_forgotten():
    windows = [float(pacing.averaging_window(window, jnp.float32(each))) for window in (2, 20) for each in (1, 3)]
    assert windows == [2, 2, 20, 4]


def test_the_trust_in_the_curvature_doubles():
    assert [float(pacing.trust(jnp.int32(step), 25, jnp.float32)) for step in (0, 25, 100)] == [1, 2, 16]


def test_columns_of_like_scales_have_no_mass():
    np.testing.assert_array_equal(inverse_root_mass(jnp.array([1.0, 9e3]), None), 1)


def test_columns_of_very_different_scales_have_the_curvature_as_mass():
    np.testing.assert_allclose(inverse_root_mass(jnp.array([1.0, 4e4, 1e8]), None), [1, 1 / 200, 1e-4], rtol=1e-6)


def test_the_larger_of_what_is_expected_and_measured_counts():
    expected, measured = jnp.array([1.0, 1e6, 4e6]), jnp.array([4.0, 1.0, jnp.nan])
    np.testing.assert_allclose(inverse_root_mass(expected, measured) ** -2, [4, 1e6, 4e6], rtol=1e-6)


def test_no_mass_is_so_small_that_float32_ends():
    w = inverse_root_mass(jnp.array([0.0, 1e-30, 1e30]), None)
    np.testing.assert_allclose(w, [1e-9, 1e-9, 1e-15], rtol=1e-5)


def test_no_curvature_at_all_is_no_mass():
    np.testing.assert_array_equal(inverse_root_mass(jnp.zeros(3), jnp.zeros(3)), 1)


def test_what_is_positive_can_be_divided_by():
    assert np.isfinite(1e3 / positive(jnp.zeros((), jnp.float32)))
    assert float(positive(jnp.float32(2))) == 2

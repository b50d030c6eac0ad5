"""How step size, friction and thermal mass follow from S and K."""

import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.dynamics import flows
from isotherm.dynamics.pace import CURVATURE_BOUND, IDENTITY_BOUND, Rules

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

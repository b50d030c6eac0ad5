"""How step size, friction and thermal mass follow from S and K; the noise friction against its linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.dynamics.pace import CURVATURE_BOUND, IDENTITY_BOUND, Rules, balanced, kinetic_energy, noise_balanced_by

AUTO = Rules(None, None, None, 1.0, balances_friction=True, bound=CURVATURE_BOUND, curvature_ratio=0.0)


def paced(estimate, rules=AUTO, inflation=1.0, curvature_trust=2.0**40):
    return rules.pace(estimate, jnp.asarray(inflation, float), jnp.asarray(curvature_trust, float))


@pytest.mark.parametrize(("T", "inflation"), [(1.0, 1.0), (0.7, 1.0), (1.0, 9.0)], ids=["unit", "cold", "far"])
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
    sizes = [float(paced(estimate, rules, curvature_trust=trust).step_size) for trust in (1, 2, 2**20)]
    expected = [np.sqrt(0.25 / 10), np.sqrt(0.25 / 10) * 2, given or np.sqrt(4 / 100)]
    np.testing.assert_allclose(sizes, np.minimum(expected, expected[2]), rtol=1e-6)


def test_the_noise_friction_keeps_a_gaussian_as_it_is(known):
    noise, curvature = [1.0, 30.0, 500.0], [0.5, 1.0, 3.0]
    found = paced(known(noise, curvature), AUTO._replace(friction=2.0))
    h, loss = found.step_size, -jnp.expm1(-2 * found.step_size)
    x = noise_balanced_by(found.noise_friction[0], h * h * jnp.asarray(curvature), loss)
    np.testing.assert_allclose(x, h * h / 2 * jnp.asarray(noise), rtol=1e-3)
    energy = jnp.sum(kinetic_energy(found.noise_friction[0], loss))
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


NOISES = [1e-6, 1e-3, 0.1, 1.0, 5.0, 50.0, 1e4]
CURVATURES = [1e-6, 0.01, 0.25, 1.0, 2.0]
FRICTIONS = [0.0, 1e-5, 0.01, 0.5, 5.0]  # h times A


def stationary(x, kappa, y, hA):
    """One step of BEOEB in one direction, with h = β = 1, as two matrices (kick, E, O, E; its noises), and the variance
    of θ times κ that solves V = MVMᵀ + NNᵀ, with βp² averaged over both halves of E."""
    a, g, eta = np.exp(-y / 2), -np.expm1(-y / 2) / y, np.exp(-hA)
    kick, kick_noise = np.array([[1, 0], [-kappa, 1]]), np.array([[0, 0], [np.sqrt(2 * x), 0]])
    E, OU, OU_noise = np.array([[1, g], [0, a]]), np.diag([1, eta]), np.array([[0, 0], [0, np.sqrt(1 - eta**2)]])
    M, noise = E @ OU @ E @ kick, np.hstack([E @ OU @ E @ kick_noise, E @ OU_noise])
    V = np.linalg.solve(np.eye(4) - np.kron(M, M), (noise @ noise.T).ravel()).reshape(2, 2)
    kicked = kick @ V @ kick.T + kick_noise @ kick_noise.T
    halfway = OU @ E @ kicked @ E.T @ OU.T + OU_noise @ OU_noise.T
    return kappa * V[0, 0], -np.expm1(-y) / y * (kicked[1, 1] + halfway[1, 1]) / 2


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("hA", FRICTIONS)
def test_the_variance_is_right_at_any_step_size(hA):
    """To what four steps of Newton's method leave."""
    for x, kappa, y, energy in solved(CURVATURES, hA):
        variance, expected = stationary(x, kappa, y, hA)
        np.testing.assert_allclose(variance, 1, atol=2e-3)
        np.testing.assert_allclose(energy, expected, atol=2e-3)


@pytest.mark.parametrize("hA", FRICTIONS)
def test_float32_is_enough(hA):
    for x, kappa, y, _ in solved([k for k in CURVATURES if k <= 0.25], hA):
        np.testing.assert_allclose(stationary(x, kappa, y, hA)[0], 1, atol=1e-3)


def solved(curvatures, hA):
    """(x, κ, y, energy) for all noises and curvatures."""
    x, kappa = (jnp.asarray(grid.ravel()) for grid in np.meshgrid(NOISES, curvatures))
    loss = -jnp.expm1(-jnp.asarray(hA))
    y = jax.jit(balanced)(x, kappa, loss)
    return zip(*map(np.float64, (x, kappa, y, jax.jit(kinetic_energy)(y, loss))), strict=True)


@pytest.mark.usefixtures("float64")
def test_without_friction_it_is_the_known_formula():
    """x = y − (κ/2)tanh(y/2), and the energy is 1."""
    y = jnp.geomspace(1e-3, 50, 30)
    found = noise_balanced_by(y, jnp.asarray(0.7), 0.0)
    np.testing.assert_allclose(found, y - 0.35 * np.tanh(y / 2), rtol=1e-12)
    np.testing.assert_allclose(kinetic_energy(y, 0.0), 1, rtol=1e-12)


def test_the_limits():
    """No noise needs no friction; of a very large step the friction is that of θ ← θ + 2(βσ² + k)⁻¹F̃."""
    assert balanced(jnp.float32(0), jnp.float32(0.25), jnp.float32(0.1)) < 1e-6
    np.testing.assert_allclose(balanced(jnp.float32(1e6), jnp.float32(3e5), 0.0), 1.15e6, rtol=1e-6)


@pytest.mark.parametrize("kappa", [0.0, 1.0, 4.0, 1e3, 1e20])
@pytest.mark.parametrize("x", [0.0, 1e-30, 1.0, 1e20])
def test_it_is_finite_whatever_it_is_given(x, kappa):
    y = jax.jit(balanced)(jnp.float32(x), jnp.float32(kappa), jnp.float32(0.3))
    assert np.isfinite(y)
    assert y >= 0

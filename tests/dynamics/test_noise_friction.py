"""The noise friction with which a step keeps a Gaussian's variance, against the step's own linear equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.dynamics import noise_friction

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
    y = jax.jit(noise_friction.balanced)(x, kappa, loss)
    return zip(*map(np.float64, (x, kappa, y, jax.jit(noise_friction.kinetic_energy)(y, loss))), strict=True)


@pytest.mark.usefixtures("float64")
def test_without_friction_it_is_the_known_formula():
    """x = y − (κ/2)tanh(y/2), and the energy is 1."""
    y = jnp.geomspace(1e-3, 50, 30)
    found = noise_friction.noise_balanced_by(y, jnp.asarray(0.7), 0.0)
    np.testing.assert_allclose(found, y - 0.35 * np.tanh(y / 2), rtol=1e-12)
    np.testing.assert_allclose(noise_friction.kinetic_energy(y, 0.0), 1, rtol=1e-12)


def test_the_limits():
    """No noise needs no friction; of a very large step the friction is that of θ ← θ + 2(βσ² + k)⁻¹F̃."""
    assert noise_friction.balanced(jnp.float32(0), jnp.float32(0.25), jnp.float32(0.1)) < 1e-6
    np.testing.assert_allclose(noise_friction.balanced(jnp.float32(1e6), jnp.float32(3e5), 0.0), 1.15e6, rtol=1e-6)


@pytest.mark.parametrize("kappa", [0.0, 1.0, 4.0, 1e3, 1e20])
@pytest.mark.parametrize("x", [0.0, 1e-30, 1.0, 1e20])
def test_it_is_finite_whatever_it_is_given(x, kappa):
    y = jax.jit(noise_friction.balanced)(jnp.float32(x), jnp.float32(kappa), jnp.float32(0.3))
    assert np.isfinite(y)
    assert y >= 0

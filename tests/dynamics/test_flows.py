"""Each letter's flow against its differential equation, and the noise friction of a step against its linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from isotherm.dynamics import flows


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("xi", [2.0, 1e-3, 1e-12, 0.0, -1e-12, -0.5])
def test_ornstein_uhlenbeck_mean_and_variance(xi):
    """Against the moments' own equations: mean' = −ξ mean, var' = −2ξ var + 2A/β."""
    A, T, t = 3.0, 0.7, 0.4
    p, R = jnp.array([1.0, -2.0]), jnp.array([1.0, 1.0])
    mean = flows.ornstein_uhlenbeck(p, 0 * R, xi, A, T, t)
    np.testing.assert_allclose(mean, np.exp(-xi * t) * p, rtol=1e-14)
    variance = (flows.ornstein_uhlenbeck(0 * p, R, xi, A, T, t)) ** 2
    s = np.linspace(0, t, 200_001)
    by_quadrature = 2 * A * T * np.trapezoid(np.exp(-2 * xi * s), s)
    np.testing.assert_allclose(variance, by_quadrature, rtol=1e-9)


@pytest.mark.parametrize("xi", [1e-30, -1e-30, 0.0, 1e-6, -1e-6, 40.0])
def test_ornstein_uhlenbeck_in_float32_near_no_friction(xi):
    found = flows.ornstein_uhlenbeck(jnp.zeros(1), jnp.ones(1), jnp.float32(xi), 1.0, 1.0, jnp.float32(0.5))
    expected = np.sqrt(1.0 if abs(xi) < 1e-3 else -np.expm1(-2 * xi * 0.5) / xi)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_other_letters():
    p, theta = jnp.array([1.0, 2.0]), jnp.array([0.5, -0.5])
    np.testing.assert_allclose(flows.drift(theta, p, 2.0, 0.1), [0.7, -0.1], rtol=1e-6)
    np.testing.assert_allclose(flows.kick(p, theta, 2.0), [2.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(flows.thermostat(jnp.float32(1.0), p, 0.5, 4.0, 0.1), 1 + 0.1 / 4 * (5 - 1), rtol=1e-6)


@pytest.mark.parametrize("x", [0.0, 1e-38, 1e-8, 1.0, 50.0, -1.0])
def test_decay_average(x):
    expected = 1.0 if x == 0 else -np.expm1(-np.float64(x)) / x
    np.testing.assert_allclose(flows.decay_average(jnp.float32(x)), expected, rtol=3e-7)
    assert np.isfinite(jax.grad(flows.decay_average)(jnp.float32(x)))


@pytest.mark.usefixtures("float64")
def test_joint_flow_solves_its_equations():
    """Against a numerical solution of dθ = M⁻¹p, dp = −(h/2)βSM⁻¹p, dξ = (p·M⁻¹p − d/β)/μ, for random S, M, β, μ."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        d, h, T, mu, t = 4, rng.uniform(0.1, 2), rng.uniform(0.5, 2), rng.uniform(1, 9), rng.uniform(0.1, 2)
        G = rng.standard_normal((d, d))
        S, m = G @ G.T, np.exp(rng.standard_normal(d))
        theta, p, xi = rng.standard_normal(d), rng.standard_normal(d), 0.3

        def equations(_, y, S=S, m=m, h=h, T=T, mu=mu, d=d):
            v = y[d:-1] / m
            return np.concatenate([v, -h / 2 / T * S @ v, [(y[d:-1] @ v - d * T) / mu]])

        solved = solve_ivp(equations, (0, t), [*theta, *p, xi], method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
        found = joint_step(theta, p, xi, S, m, h, T, mu, t)
        np.testing.assert_allclose(np.concatenate([*found[:2], found[2:]]), solved, rtol=1e-10, atol=1e-10)
        half = joint_step(*joint_step(theta, p, xi, S, m, h, T, mu, t / 2), S, m, h, T, mu, t / 2)
        for one, two in zip(found, half, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def joint_step(theta, p, xi, S, m, h, T, mu, t):
    """E as the sampler makes it: whitened by the mass, in the eigenbasis of the whitened S."""
    w = jnp.asarray(m) ** -0.5
    values, vectors = jnp.linalg.eigh(w[:, None] * S * w[None])
    white = w * p
    path = flows.joint(vectors.T @ white, t * h / (2 * T) * values)
    position = flows.drift(jnp.asarray(theta), vectors @ path.moved, w, t)
    return position, vectors @ path.momentum / w, xi + t / mu * (path.energy - len(p) * T)


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
    y = jax.jit(flows.balanced)(x, kappa, loss)
    return zip(*map(np.float64, (x, kappa, y, jax.jit(flows.kinetic_energy)(y, loss))), strict=True)


@pytest.mark.usefixtures("float64")
def test_without_friction_it_is_the_known_formula():
    """x = y − (κ/2)tanh(y/2), and the energy is 1."""
    y = jnp.geomspace(1e-3, 50, 30)
    found = flows.noise_balanced_by(y, jnp.asarray(0.7), 0.0)
    np.testing.assert_allclose(found, y - 0.35 * np.tanh(y / 2), rtol=1e-12)
    np.testing.assert_allclose(flows.kinetic_energy(y, 0.0), 1, rtol=1e-12)


def test_the_limits():
    """No noise needs no friction; of a very large step the friction is that of θ ← θ + 2(βσ² + k)⁻¹F̃."""
    assert flows.balanced(jnp.float32(0), jnp.float32(0.25), jnp.float32(0.1)) < 1e-6
    np.testing.assert_allclose(flows.balanced(jnp.float32(1e6), jnp.float32(3e5), 0.0), 1.15e6, rtol=1e-6)


@pytest.mark.parametrize("kappa", [0.0, 1.0, 4.0, 1e3, 1e20])
@pytest.mark.parametrize("x", [0.0, 1e-30, 1.0, 1e20])
def test_it_is_finite_whatever_it_is_given(x, kappa):
    y = jax.jit(flows.balanced)(jnp.float32(x), jnp.float32(kappa), jnp.float32(0.3))
    assert np.isfinite(y)
    assert y >= 0

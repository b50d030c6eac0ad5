"""Each letter's flow against its differential equation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm import flows


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

"""exp(−T)e₁ against SciPy, and what holds for any T, rounded or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from isotherm.dynamics.flows import decay_average
from isotherm.dynamics.matrix_exponential import POLES, contour, decay


def tridiagonal(k, norm, seed):
    """A positive semi-definite T, LᵀL with L bidiagonal, as its diagonal and what is beside it."""
    rng = np.random.default_rng(seed)
    L = np.diag(rng.standard_normal(k)) + np.diag(rng.standard_normal(k - 1), 1)
    T = L.T @ L
    T *= norm / np.linalg.norm(T, 2)
    return T, np.diag(T).copy(), np.append(0.0, np.diag(T, 1))


@pytest.mark.parametrize(("bits", "error"), [(32, 5e-8), (64, 2e-14)])
def test_the_contour_is_right_on_the_whole_half_line(bits, error):
    """Σ c/(x + z) against e^(−x) in double precision: 3.9^−14 = 5e-9 and 3.9^−26 = 4e-16, and some rounding."""
    x = np.append(0, np.geomspace(1e-8, 1e8, 2000))
    z, c = contour(POLES[bits])
    assert np.abs((c / (x[:, None] + z)).sum(axis=1).real - np.exp(-x)).max() < error


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("norm", [1e-8, 1e-3, 0.5, 2.0, 30.0, 1e3, 1e8])
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_agrees_with_scipy(norm, k):
    T, diagonal, beside = tridiagonal(k, norm, k)
    end, average = decay(jnp.asarray(diagonal), jnp.asarray(beside))
    values, vectors = np.linalg.eigh(T)
    expected = vectors @ (np.asarray(decay_average(jnp.maximum(values, 0))) * vectors[0])
    change = min(1, norm)  # where T is small, to a part in 1e12 of the change
    rounding = norm * 2e-16  # of T itself, which moves its eigenvalues
    np.testing.assert_allclose(end, scipy.linalg.expm(-T)[:, 0], rtol=0, atol=1e-12 * change + rounding)
    np.testing.assert_allclose(average, expected, rtol=0, atol=1e-12 + rounding)


@given(st.floats(-10, 10), st.integers(0, 2**31))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_never_grows_in_float32(log_norm, seed):
    """Rounding T moves its eigenvalues by 1e-7 of the largest, which makes some negative: still no longer than e₁."""
    _, diagonal, beside = tridiagonal(8, 10.0**log_norm, seed)
    end, average = jax.jit(decay)(diagonal.astype(np.float32), beside.astype(np.float32))
    assert np.linalg.norm(end) <= 1 + 1e-6
    assert np.isfinite(average).all()


@pytest.mark.parametrize("norm", [1e-6, 1e-3, 1.0, 50.0])
def test_float32_is_right_to_its_rounding(norm):
    """ε = 6e-8 for 1 − change, some ten of it for the sum over poles, times the change, and ‖T‖ε for T itself."""
    T, diagonal, beside = tridiagonal(8, norm, 3)
    end, _ = decay(jnp.asarray(diagonal, jnp.float32), jnp.asarray(beside, jnp.float32))
    error = np.linalg.norm(np.asarray(end, float) - scipy.linalg.expm(-T)[:, 0])
    assert error <= 6e-8 * (1 + 10 * min(1, norm) + norm)


def test_rows_without_a_space_stay_zero():
    """Lanczos leaves zeros where its space ends early."""
    end, _ = decay(jnp.array([2.0, 0.0, 0.0]), jnp.zeros(3))
    np.testing.assert_allclose(end, [np.exp(-2), 0, 0], atol=1e-6)

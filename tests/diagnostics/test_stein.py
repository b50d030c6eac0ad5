"""Gaussian draws with forces that are known: what Stein's identities make of them is known too."""

import numpy as np
import pytest

from isotherm.diagnostics.stein import standard_errors, stein_moments

CHAINS, DRAWS, D = 4, 2000, 5
SHAPE = (CHAINS, DRAWS, D)


def gaussian(seed=0, shape=SHAPE):
    return np.random.default_rng(seed).standard_normal(shape)


def test_right_draws_are_off_by_their_errors_alone():
    """In z the force of N(0, I) is −z."""
    z = gaussian()
    found = stein_moments(z, -z)
    # 8,000 independent draws: the mean has the error 1/√8000 = 0.011, z² that times √2; five of them.
    np.testing.assert_allclose(found.shift, 0, atol=0.056)
    np.testing.assert_allclose(found.variance, 1, atol=0.08)
    assert found.trace == pytest.approx(1, abs=0.036)  # over 5 directions
    assert found.distance == pytest.approx(0.011, abs=0.015)


def test_errors_are_the_standard_errors():
    z = gaussian(1)
    found = stein_moments(z, -z)
    # From 32 blocks, a standard deviation is known to 1/√62 = 13 %; four of those, in five directions.
    np.testing.assert_allclose(found.shift_error, 1 / np.sqrt(8000), rtol=0.5)
    np.testing.assert_allclose(found.variance_error, np.sqrt(2 / 8000), rtol=0.5)
    assert found.trace_error == pytest.approx(np.sqrt(2 / 8000 / D), rel=0.5)


def test_a_wrong_mean_is_measured():
    z = gaussian() + np.array([0.3, -0.2, 0, 0, 0])
    found = stein_moments(z, -z)
    np.testing.assert_allclose(found.shift, [0.3, -0.2, 0, 0, 0], atol=0.056)
    assert found.distance == pytest.approx(np.sqrt((0.3**2 + 0.2**2) / D), abs=0.03)
    np.testing.assert_allclose(found.variance, 1, atol=0.08)  # about the draws' own mean


@pytest.mark.parametrize("ratio", [0.5, 1.2, 4.0])
def test_a_wrong_variance_is_measured(ratio):
    z = np.sqrt(ratio) * gaussian()
    found = stein_moments(z, -z)
    np.testing.assert_allclose(found.variance, ratio, rtol=0.08)
    assert found.trace == pytest.approx(ratio, rel=0.036)


def test_coordinates_need_not_be_white():
    """−E[(z − m)Fᵀ] = I whatever the curvature: forces −Kz of draws with covariance K⁻¹."""
    K = np.diag([0.5, 0.8, 1.0, 1.5, 2.0])
    z = gaussian() / np.sqrt(np.diagonal(K))
    found = stein_moments(z, -z @ K)
    np.testing.assert_allclose(found.variance, 1, atol=0.08)


def test_noise_of_the_forces_widens_the_errors_and_moves_nothing():
    z, noise = gaussian(), gaussian(1)
    found, clear = stein_moments(z, -z + 2 * noise), stein_moments(z, -z)
    # Variance 1 + 2² instead of 1: the errors are √5 times as large in the mean, √(2 + 2²)/√2 in the variance.
    np.testing.assert_allclose(found.shift, 0, atol=5 * np.sqrt(5 / 8000))
    np.testing.assert_allclose(found.variance, 1, atol=5 * np.sqrt(6 / 8000))
    np.testing.assert_allclose(found.shift_error, np.sqrt(5 / 8000), rtol=0.5)
    np.testing.assert_allclose(found.variance_error, np.sqrt(6 / 8000), rtol=0.5)
    assert found.trace_error > clear.trace_error


def test_directions():
    """One direction twice as wide and shifted; seen along it, unseen across it, and half of each at 45 degrees."""
    z = gaussian()
    z[..., 0] = 2 * z[..., 0] + 1
    along = np.eye(D)[[0, 1]]
    turned = np.array([[np.sqrt(0.5), np.sqrt(0.5), 0, 0, 0]])
    found = stein_moments(z, -z, np.concatenate([along, turned]))
    np.testing.assert_allclose(found.variance, [4, 1, 2.5], rtol=0.08)
    np.testing.assert_allclose(found.shift, [1, 0, np.sqrt(0.5)], atol=0.12)
    assert found.shift.shape == found.variance_error.shape == (3,)
    whole = stein_moments(z, -z)
    assert (found.distance, found.trace) == (whole.distance, whole.trace)  # of all coordinates, whatever the directions


def test_draws_that_remember_have_larger_errors():
    """An AR(1) series with 0.9 has 1 + 2·0.9/(1 − 0.9) = 19 times the variance of its mean."""
    rng, phi = np.random.default_rng(0), 0.9
    z = np.empty((8, 4000, 1))
    z[:, 0] = rng.standard_normal((8, 1))
    for i in range(1, 4000):
        z[:, i] = phi * z[:, i - 1] + np.sqrt(1 - phi**2) * rng.standard_normal((8, 1))
    found = stein_moments(z, -z)
    np.testing.assert_allclose(found.shift_error, np.sqrt(19 / 32_000), rtol=0.4)  # 64 blocks: 9 %, four of those


def test_float32_is_summed_in_float64():
    z = gaussian().astype(np.float32)
    found = stein_moments(1000 + z, -z)
    assert found.variance.dtype == np.float64
    np.testing.assert_allclose(found.variance, stein_moments(z, -z).variance, rtol=1e-3)


def test_errors_of_few_draws():
    assert standard_errors(np.ones((1, 1, 2))).tolist() == [0, 0]
    values = np.arange(6.0).reshape(2, 3)  # fewer draws than blocks: every draw is one
    assert float(standard_errors(values)) == pytest.approx(values.std(ddof=1) / np.sqrt(6))


def test_shapes_are_refused_in_words():
    with pytest.raises(ValueError, match=r"the axes chain, draw and coordinate, got shapes \(3, 2\) and \(3, 2\)"):
        stein_moments(np.ones((3, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"got shapes \(1, 3, 2\) and \(1, 4, 2\)"):
        stein_moments(np.ones((1, 3, 2)), np.ones((1, 4, 2)))

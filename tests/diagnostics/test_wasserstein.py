import numpy as np
import pytest
import scipy.linalg

from isotherm.diagnostics import gaussian_w2


def covariance(seed, d=6, rank=None):
    a = np.random.default_rng(seed).normal(size=(d, rank or d))
    return a @ a.T


def test_one_dimension_by_hand():
    """In one dimension W₂² = (m₁ − m₂)² + (s₁ − s₂)²."""
    assert gaussian_w2([1.0], [[9.0]], [5.0], [[4.0]]) == pytest.approx(np.sqrt(16 + 1))


def test_agrees_with_schur_square_roots():
    m1, m2, c1, c2 = np.arange(6.0), np.ones(6), covariance(0), covariance(1)
    cross = scipy.linalg.sqrtm(scipy.linalg.sqrtm(c2) @ c1 @ scipy.linalg.sqrtm(c2)).real
    expected = np.sqrt(np.sum((m1 - m2) ** 2) + np.trace(c1 + c2 - 2 * cross))
    assert gaussian_w2(m1, c1, m2, c2) == pytest.approx(expected, rel=1e-9)


def test_is_symmetric():
    c1, c2, m = covariance(0), covariance(1), np.zeros(6)
    assert gaussian_w2(m, c1, m, c2) == pytest.approx(gaussian_w2(m, c2, m, c1), rel=1e-9)


@pytest.mark.parametrize("rank", [6, 3])
def test_is_zero_for_equal_laws(rank):
    """Also where some eigenvalues are small or zero. The bound is 6e-8 √(d tr C) for d = 6 and a trace of about 40."""
    for seed in range(50):
        c = covariance(seed, rank=rank)
        assert gaussian_w2(np.zeros(6), c, np.zeros(6), c) < 1e-6


def test_singular_covariances():
    """A law on a plane against a point: W₂² is the trace."""
    c = covariance(2, rank=2)
    assert gaussian_w2(np.zeros(6), c, np.zeros(6), np.zeros((6, 6))) == pytest.approx(np.sqrt(np.trace(c)))
    assert gaussian_w2(np.zeros(6), np.zeros((6, 6)), np.zeros(6), c) == pytest.approx(np.sqrt(np.trace(c)))


def test_float32_input_is_computed_in_float64():
    c1, c2 = covariance(0).astype(np.float32), covariance(1).astype(np.float32)
    wide = gaussian_w2(np.zeros(6), c1.astype(np.float64), np.zeros(6), c2.astype(np.float64))
    assert gaussian_w2(np.zeros(6, np.float32), c1, np.zeros(6, np.float32), c2) == wide


def test_diverged_moments_give_nan():
    assert np.isnan(gaussian_w2([np.nan], [[1.0]], [0.0], [[1.0]]))


def test_refuses_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"mean2 must be a vector of length 2 and cov2 .* got shapes \(3,\)"):
        gaussian_w2(np.zeros(2), np.eye(2), np.zeros(3), np.eye(3))

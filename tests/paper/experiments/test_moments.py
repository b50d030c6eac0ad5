import numpy as np
import pytest
import scipy.linalg

from isotherm.paper.experiments.moments import gaussian_w2, mean_error, variance_ratio


def test_by_hand():
    h = np.diag([4.0, 1.0])
    assert variance_ratio(h, np.diag([0.5, 3.0]), np.diag([0.25, 1.0])) == pytest.approx((2 + 3) / 2)
    assert mean_error(h, [1.0, 2.0], [0.0, 0.0]) == pytest.approx(np.sqrt((4 + 4) / 2))


def test_does_not_depend_on_the_coordinates():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(5, 5))
    h, c, c_ref = (b @ b.T for b in rng.normal(size=(3, 5, 5)))
    m, inverse = rng.normal(size=5), np.linalg.inv(a)
    turned = inverse.T @ h @ inverse
    assert variance_ratio(turned, a @ c @ a.T, a @ c_ref @ a.T) == pytest.approx(variance_ratio(h, c, c_ref))
    assert mean_error(turned, a @ m, np.zeros(5)) == pytest.approx(mean_error(h, m, np.zeros(5)))


def test_a_perfect_sampler_scores_one_and_its_standard_error():
    rng = np.random.default_rng(0)
    draws, reference = rng.normal(size=(2, 4000, 20))
    h = np.eye(20)
    # tr C/d of 80,000 unit normals: standard error √(2/80,000) = 0.005, twice
    ratio = variance_ratio(h, np.cov(draws.T), np.cov(reference.T))
    assert ratio == pytest.approx(1, abs=0.03)
    # the mean of 4,000 draws is off by 1/√4000 = 0.016 in each direction
    assert mean_error(h, draws.mean(axis=0), np.zeros(20)) == pytest.approx(1 / np.sqrt(4000), rel=0.5)


def test_nan_stays():
    assert np.isnan(mean_error(np.eye(1), [np.nan], [0.0]))
    assert np.isnan(variance_ratio(np.eye(1), [[np.nan]], [[1.0]]))


def covariance(seed, d=6, rank=None):
    a = np.random.default_rng(seed).normal(size=(d, rank or d))
    return a @ a.T


def test_w2_in_one_dimension_by_hand():
    """In one dimension W₂² = (m₁ − m₂)² + (s₁ − s₂)²."""
    assert gaussian_w2([1.0], [[9.0]], [5.0], [[4.0]]) == pytest.approx(np.sqrt(16 + 1))


def test_w2_agrees_with_schur_square_roots():
    m1, m2, c1, c2 = np.arange(6.0), np.ones(6), covariance(0), covariance(1)
    cross = scipy.linalg.sqrtm(scipy.linalg.sqrtm(c2) @ c1 @ scipy.linalg.sqrtm(c2)).real
    expected = np.sqrt(np.sum((m1 - m2) ** 2) + np.trace(c1 + c2 - 2 * cross))
    assert gaussian_w2(m1, c1, m2, c2) == pytest.approx(expected, rel=1e-9)


def test_w2_is_symmetric():
    c1, c2, m = covariance(0), covariance(1), np.zeros(6)
    assert gaussian_w2(m, c1, m, c2) == pytest.approx(gaussian_w2(m, c2, m, c1), rel=1e-9)


@pytest.mark.parametrize("rank", [6, 3])
def test_w2_is_zero_for_equal_laws(rank):
    """Also where some eigenvalues are small or zero. The bound is 6e-8 √(d tr C) for d = 6 and a trace of about 40."""
    for seed in range(50):
        c = covariance(seed, rank=rank)
        assert gaussian_w2(np.zeros(6), c, np.zeros(6), c) < 1e-6


def test_w2_of_singular_covariances():
    """A law on a plane against a point: W₂² is the trace."""
    c = covariance(2, rank=2)
    assert gaussian_w2(np.zeros(6), c, np.zeros(6), np.zeros((6, 6))) == pytest.approx(np.sqrt(np.trace(c)))
    assert gaussian_w2(np.zeros(6), np.zeros((6, 6)), np.zeros(6), c) == pytest.approx(np.sqrt(np.trace(c)))


def test_w2_of_float32_input_is_computed_in_float64():
    c1, c2 = covariance(0).astype(np.float32), covariance(1).astype(np.float32)
    wide = gaussian_w2(np.zeros(6), c1.astype(np.float64), np.zeros(6), c2.astype(np.float64))
    assert gaussian_w2(np.zeros(6, np.float32), c1, np.zeros(6, np.float32), c2) == wide


def test_w2_of_diverged_moments_is_nan():
    assert np.isnan(gaussian_w2([np.nan], [[1.0]], [0.0], [[1.0]]))

import numpy as np
import pytest

from isotherm.diagnostics import mean_error, variance_ratio


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


def test_nan_and_refusals():
    assert np.isnan(mean_error(np.eye(1), [np.nan], [0.0]))
    assert np.isnan(variance_ratio(np.eye(1), [[np.nan]], [[1.0]]))
    with pytest.raises(
        ValueError, match=r"covariance must be of shape \(2, 2\) as the hessian has, got shape \(3, 3\)"
    ):
        variance_ratio(np.eye(2), np.eye(3), np.eye(2))
    with pytest.raises(ValueError, match="must be positive, got 0"):
        variance_ratio(np.eye(2), np.eye(2), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="positive semi-definite"):
        mean_error(-np.eye(2), np.ones(2), np.zeros(2))
    with pytest.raises(ValueError, match=r"mean must have shape \(2,\)"):
        mean_error(np.eye(2), np.ones(3), np.zeros(2))

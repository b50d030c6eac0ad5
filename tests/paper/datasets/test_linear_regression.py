import numpy as np
import pytest

from isotherm.paper.datasets import linear_regression


def test_moments_of_what_is_made():
    data, theta = linear_regression.make()
    assert data["x"].shape == (10_000, 100)
    assert data["x"].dtype == data["y"].dtype == np.float32
    # a million standard normals: mean within 5/1000, variance within 5·√2/1000
    assert abs(data["x"].mean()) < 0.005
    assert abs(data["x"].var() - 1) < 0.0071
    # 100 draws of N(0, 0.01): the standard deviation is good to 7 %
    assert theta.std() == pytest.approx(0.1, rel=0.3)
    noise = data["y"] - data["x"] @ theta
    assert noise.var() == pytest.approx(1, abs=5 * np.sqrt(2 / 10_000))


def test_posterior_by_hand():
    data = {"x": np.float32([[1], [2]]), "y": np.float32([3, 5])}
    mean, covariance = linear_regression.posterior(data, prior_variance=0.5, noise_variance=2.0)
    precision = 5 / 2 + 1 / 0.5
    np.testing.assert_allclose(covariance, [[1 / precision]])
    np.testing.assert_allclose(mean, [13 / 2 / precision])
    assert mean.dtype == covariance.dtype == np.float64


def test_posterior_covers_the_truth():
    data, theta = linear_regression.make(seed=3)
    mean, covariance = linear_regression.posterior(data)
    # (θ − m)ᵀC⁻¹(θ − m) is about χ² with 100 degrees of freedom: 100 ± 5·√200
    assert (theta - mean) @ np.linalg.solve(covariance, theta - mean) == pytest.approx(100, abs=70)
    gradient = data["x"].astype(np.float64).T @ (data["y"] - data["x"] @ mean) - mean / 10
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def test_seeds_and_refusals():
    np.testing.assert_array_equal(linear_regression.make(50, 3).data["y"], linear_regression.make(50, 3).data["y"])
    assert (linear_regression.make(50, 3, seed=1).data["y"] != linear_regression.make(50, 3).data["y"]).any()
    with pytest.raises(ValueError, match=r"scale .*got -1"):
        linear_regression.make(scale=-1)
    with pytest.raises(ValueError, match=r"prior_variance .*got 0"):
        linear_regression.posterior(linear_regression.make(5, 2).data, prior_variance=0)

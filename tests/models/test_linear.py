import numpy as np

from isotherm.models import Linear


def test_likelihood_and_mean_by_hand():
    model = Linear(2, noise_variance=4.0)
    theta, x = np.float32([1.0, -2.0]), np.float32([3.0, 0.5])
    # θ·x = 2, residual 5 − 2 = 3
    expected = -9 / 8 - 0.5 * np.log(2 * np.pi * 4)
    np.testing.assert_allclose(model.log_likelihood(theta, {"x": x, "y": np.float32(5)}), expected, rtol=1e-6)
    np.testing.assert_allclose(model.predict(theta, np.stack([x, 2 * x])), [2, 4])

import jax
import numpy as np

from isotherm.models import Logistic


def test_likelihood_and_gradient_by_hand():
    model, theta, x = Logistic(2), np.float32([0.5, -1.0]), np.float32([2.0, 3.0])
    z = 0.5 * 2 - 3
    for y in (-1.0, 1.0):
        example = {"x": x, "y": np.float32(y)}
        value, gradient = jax.value_and_grad(model.log_likelihood)(theta, example)
        np.testing.assert_allclose(value, -np.log1p(np.exp(-y * z)), rtol=1e-6)
        np.testing.assert_allclose(gradient, y * x / (1 + np.exp(y * z)), rtol=1e-6)


def test_columns_are_minus_and_plus():
    model = Logistic(1)
    log_p = model.predict(np.float32([1.0]), np.float32([[3.0]]))
    np.testing.assert_allclose(np.exp(log_p), [[1 / (1 + np.exp(3)), 1 / (1 + np.exp(-3))]], rtol=1e-6)
    np.testing.assert_array_equal(model.class_index(np.float32([-1, 1])), [0, 1])

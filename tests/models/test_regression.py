import jax
import numpy as np

from isotherm.models import MLP, Linear, Logistic, Softmax


def test_linear_likelihood_and_mean_by_hand():
    model = Linear(2, noise_variance=4.0)
    theta, x = np.float32([1.0, -2.0]), np.float32([3.0, 0.5])
    # θ·x = 2, residual 5 − 2 = 3
    expected = -9 / 8 - 0.5 * np.log(2 * np.pi * 4)
    np.testing.assert_allclose(model.log_likelihood(theta, {"x": x, "y": np.float32(5)}), expected, rtol=1e-6)
    np.testing.assert_allclose(model.predict(theta, np.stack([x, 2 * x])), [2, 4])


def test_logistic_likelihood_and_gradient_by_hand():
    model, theta, x = Logistic(2), np.float32([0.5, -1.0]), np.float32([2.0, 3.0])
    z = 0.5 * 2 - 3
    for y in (-1.0, 1.0):
        example = {"x": x, "y": np.float32(y)}
        value, gradient = jax.value_and_grad(model.log_likelihood)(theta, example)
        np.testing.assert_allclose(value, -np.log1p(np.exp(-y * z)), rtol=1e-6)
        np.testing.assert_allclose(gradient, y * x / (1 + np.exp(y * z)), rtol=1e-6)


def test_logistic_columns_are_minus_and_plus():
    model = Logistic(1)
    log_p = model.predict(np.float32([1.0]), np.float32([[3.0]]))
    np.testing.assert_allclose(np.exp(log_p), [[1 / (1 + np.exp(3)), 1 / (1 + np.exp(-3))]], rtol=1e-6)
    np.testing.assert_array_equal(model.class_index(np.float32([-1, 1])), [0, 1])


def test_softmax_likelihood_and_gradient_by_hand():
    rng = np.random.default_rng(0)
    w, b, x = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=4)
    p = np.exp(w @ x + b) / np.exp(w @ x + b).sum()
    with jax.enable_x64(True):
        params, example = {"W": w, "b": b}, {"x": x, "y": np.int32(2)}
        value, gradient = jax.value_and_grad(Softmax(4, 3).log_likelihood)(params, example)
    np.testing.assert_allclose(value, np.log(p[2]))
    residual = np.eye(3)[2] - p
    np.testing.assert_allclose(gradient["b"], residual)
    np.testing.assert_allclose(gradient["W"], np.outer(residual, x))


def test_mlp_prediction_by_hand():
    rng = np.random.default_rng(0)
    w1, b1, w2, b2 = (rng.normal(size=s) for s in [(5, 4), (5,), (3, 5), (3,)])
    x = rng.normal(size=(7, 4))
    a = np.tanh(x @ w1.T + b1) @ w2.T + b2
    expected = a - np.log(np.exp(a).sum(axis=1, keepdims=True))
    with jax.enable_x64(True):
        params = jax.tree.map(jax.numpy.asarray, {"W1": w1, "b1": b1, "W2": w2, "b2": b2})
        log_p = MLP(4, 5, 3).predict(params, x)
    np.testing.assert_allclose(log_p, expected)

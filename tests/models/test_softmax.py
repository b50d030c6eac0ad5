import jax
import numpy as np

from isotherm.models import Softmax


def test_likelihood_and_gradient_by_hand():
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

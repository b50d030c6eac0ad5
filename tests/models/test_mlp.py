import jax
import numpy as np

from isotherm.models import MLP


def test_prediction_by_hand():
    rng = np.random.default_rng(0)
    w1, b1, w2, b2 = (rng.normal(size=s) for s in [(5, 4), (5,), (3, 5), (3,)])
    x = rng.normal(size=(7, 4))
    a = np.tanh(x @ w1.T + b1) @ w2.T + b2
    expected = a - np.log(np.exp(a).sum(axis=1, keepdims=True))
    with jax.enable_x64(True):
        params = jax.tree.map(jax.numpy.asarray, {"W1": w1, "b1": b1, "W2": w2, "b2": b2})
        log_p = MLP(4, 5, 3).predict(params, x)
    np.testing.assert_allclose(log_p, expected)

"""The default rank of mCCAdL is large enough: too small a rank flatters the loss, so it is held to the dense action."""

import jax
import numpy as np
import pytest

import isotherm
from isotherm.diagnostics import log_losses
from isotherm.models import Logistic
from isotherm.paper.datasets import mnist

pytestmark = pytest.mark.slow


def loss(sampler, model, train, test, n, passes, seed=0):
    posterior = isotherm.Posterior(model.log_likelihood, model.log_prior)
    tree = isotherm.sample(
        posterior, sampler, train, np.zeros(model.features, np.float32), batch_size=n, passes=passes, chains=1,
        thin=5, seed=seed, progress=False,
    )  # fmt: skip
    predicted = jax.vmap(lambda theta: model.predict(theta, test["x"]))(tree.posterior.theta.values[0])
    return float(log_losses(predicted, np.asarray(model.class_index(test["y"]))).mean())


def test_default_agrees_with_dense_on_data_like_mnist():
    """At 0.9 of the stability limit 2/√λ_max(Hessian). Same seed, same noise: what is left is the action's own error.
    A rank of 1 shows that the test can tell."""
    rng = np.random.default_rng(2)
    d, N, n = 30, 4000, 100
    spectrum = 8.0 / np.arange(1, d + 1)
    theta = rng.standard_normal(d)
    x = (spectrum * rng.standard_normal((2 * N, d))).astype(np.float32)
    y = np.where(rng.random(2 * N) < 1 / (1 + np.exp(-x @ theta)), 1, -1).astype(np.float32)
    train, test = {"x": x[:N], "y": y[:N]}, {"x": x[N:], "y": y[N:]}
    model = Logistic(d, prior_variance=1.0)
    p = 1 / (1 + np.exp(-train["x"] @ theta))
    h = 0.9 * 2 / np.sqrt(np.linalg.eigvalsh((train["x"].T * (p * (1 - p))) @ train["x"]).max())
    dense = loss(isotherm.mccadl(h, expm="dense"), model, train, test, n, 100)
    default = loss(isotherm.mccadl(h), model, train, test, n, 100)
    crude = loss(isotherm.mccadl(h, rank=1), model, train, test, n, 100)
    assert abs(default / dense - 1) < 0.005
    assert abs(crude / dense - 1) > 10 * abs(default / dense - 1)


@pytest.mark.long
def test_default_agrees_with_dense_on_mnist(real_data):
    """h = 1.2e-3, the largest of the paper, three seeds; dense takes minutes."""
    split = mnist.pair(7, 9, data_dir=real_data)
    model = Logistic(100, prior_variance=1.0)
    both = [
        [loss(isotherm.mccadl(1.2e-3, expm=expm), model, *split, 500, 200, seed) for seed in range(3)]
        for expm in ("dense", "lanczos")
    ]
    dense, default = np.mean(both, axis=1)
    assert abs(default / dense - 1) < 0.005

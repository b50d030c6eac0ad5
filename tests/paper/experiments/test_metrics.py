"""What is measured along the way is what the draws so far give, computed window by window."""

import jax
import numpy as np
import pytest

from isotherm import diagnostics
from isotherm.models import Linear, Softmax
from isotherm.paper.datasets.linear_regression import ExactPosterior
from isotherm.paper.experiments import metrics
from isotherm.paper.experiments.tasks import Materials

DRAWS = np.random.default_rng(0).normal(3.0, 1.0, (500, 4)).astype(np.float32)


def test_windows_drop_the_first_fifth_and_end_at_the_end():
    windows = metrics.windows(500, 0.2, points=10)
    assert windows[-1] == (100, 500)
    assert [last for _, last in windows] == list(range(50, 501, 50))


def test_few_draws_give_few_windows():
    assert metrics.windows(3, 0.2) == [(0, 2), (0, 3)]
    assert metrics.windows(1, 0.2) == [(0, 1)]


def test_means():
    """The classifier's curve is that of the mean of each window's draws, the parameters in more than one array."""
    rng = np.random.default_rng(1)
    test = {"x": rng.normal(size=(30, 2)).astype(np.float32), "y": np.arange(30, dtype=np.int32) % 3}
    model = Softmax(2, 3)
    draws = {"W": rng.normal(size=(50, 3, 2)).astype(np.float32), "b": rng.normal(size=(50, 3)).astype(np.float32)}
    materials = Materials(model, test, model.init, test)
    values, curves, _ = metrics.measure(draws, materials, 0.2, usable=True)
    losses = []
    for first, last in metrics.windows(50, 0.2):
        mean = jax.tree.map(lambda a, part=slice(first, last): a[part].mean(axis=0, dtype=np.float64), draws)
        logits = test["x"].astype(np.float64) @ mean["W"].T + mean["b"]
        log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        losses.append(diagnostics.log_loss(log_p, test["y"]))
    np.testing.assert_allclose(curves["log_likelihood"], np.negative(losses), rtol=1e-5)  # float32 predictions
    assert values["posterior_mean_log_loss"] == -curves["log_likelihood"][-1]
    assert curves["draws"][-1] == 50


def test_gaussians():
    exact = ExactPosterior(np.full(4, 2.9), np.diag([1.0, 2.0, 3.0, 4.0]))
    materials = Materials(Linear(4), {}, np.zeros(4, np.float32), exact=exact)
    values, curves, _ = metrics.measure(DRAWS, materials, 0.2, usable=True)
    windows = metrics.windows(500, 0.2)
    assert curves["draws"] == [last for _, last in windows]
    for window, distance in zip(windows, curves["w2"], strict=True):
        part = DRAWS[slice(*window)].astype(np.float64)
        assert distance == pytest.approx(diagnostics.gaussian_w2(part.mean(axis=0), np.cov(part.T, bias=True), *exact))
    assert values["w2"] == curves["w2"][-1]
    assert values["variance_ratio"] == pytest.approx((part.var(axis=0) / np.diag(exact.covariance)).mean())


def test_draws_that_are_not_usable_have_no_metrics():
    materials = Materials(Linear(4), {}, np.zeros(4, np.float32), exact=ExactPosterior(np.zeros(4), np.eye(4)))
    values, curves, moments = metrics.measure(np.full((5, 4), np.nan), materials, 0.2, usable=False)
    assert list(values) == list(metrics.GAUSSIAN)
    assert all(np.isnan(value) for value in values.values())
    assert (curves, moments) == ({"draws": [], "w2": []}, {})

"""What is measured along the way is what the draws so far give, computed window by window; and what `isotherm.check`
says of a cell's draws is what it would say of a run, without the cell's burn-in.
"""

import jax
import numpy as np
import pytest
import xarray

from isotherm import diagnostics
from isotherm.models import DRBM, Linear, Softmax
from isotherm.paper.datasets.linear_regression import ExactPosterior
from isotherm.paper.experiments import metrics
from isotherm.paper.experiments.moments import gaussian_w2
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
        assert distance == pytest.approx(gaussian_w2(part.mean(axis=0), np.cov(part.T, bias=True), *exact))
    assert values["w2"] == curves["w2"][-1]
    assert values["variance_ratio"] == pytest.approx((part.var(axis=0) / np.diag(exact.covariance)).mean())


def test_draws_that_are_not_usable_have_no_metrics():
    materials = Materials(Linear(4), {}, np.zeros(4, np.float32), exact=ExactPosterior(np.zeros(4), np.eye(4)))
    values, curves, moments = metrics.measure(np.full((5, 4), np.nan), materials, 0.2, usable=False)
    assert list(values) == list(metrics.GAUSSIAN)
    assert all(np.isnan(value) for value in values.values())
    assert (curves, moments) == ({"draws": [], "w2": []}, {})


RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3)).astype(np.float32)
DATA = {"x": X, "y": (X.sum(axis=1) + RNG.standard_normal(300)).astype(np.float32)}
COVARIANCE = np.linalg.inv(X.T.astype(np.float64) @ X + np.eye(3) / 10)
EXACT = ExactPosterior(COVARIANCE @ X.T.astype(np.float64) @ DATA["y"].astype(np.float64), COVARIANCE)
MATERIALS = Materials(Linear(3, prior_variance=10.0), DATA, np.zeros(3, np.float32), exact=EXACT)


def tree(scale=1.0, shift=0.0):
    """One chain of 1,000 draws of the posterior, after 250 that are far from it."""
    z = scale * RNG.standard_normal((1, 1250, 3)) + shift
    z[:, :250] += 30
    theta = EXACT.mean + z @ np.linalg.cholesky(COVARIANCE).T
    return xarray.DataTree.from_dict({"posterior": xarray.Dataset({"theta": (["chain", "draw", "i"], theta)})})


def test_right_draws_are_right_without_a_reference():
    found = metrics.verdict(tree(), MATERIALS, 0.2, 0)
    assert found["good"], found["lines"]
    assert found["bad"] == []
    assert found["checked_variance"] == pytest.approx(
        1, abs=0.15
    )  # 1,000 draws of 3 parameters: 3 errors of √(2.5/3000)
    assert found["checked_mean_error"] < 0.1
    assert found["passes"] > 0


def test_wrong_draws_are_wrong_by_as_much_as_they_are():
    found = metrics.verdict(tree(2.0, 0.5), MATERIALS, 0.2, 0)
    assert not found["good"]
    assert {"mean", "variance"} <= set(found["bad"])
    assert found["checked_variance"] == pytest.approx(4, rel=0.15)
    assert found["checked_mean_error"] == pytest.approx(0.5, abs=0.2)  # the error of a mean is twice as large, 0.06


def test_large_models_are_not_checked():
    model = DRBM(16, 100, 26)
    wide = xarray.Dataset({"W": (["chain", "draw", "i"], np.zeros((1, 10, 1025)))})
    assert (
        metrics.verdict(xarray.DataTree.from_dict({"posterior": wide}), Materials(model, DATA, model.init), 0, 0) == {}
    )

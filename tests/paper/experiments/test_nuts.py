"""NUTS as the reference: right on a posterior that is nearly Gaussian, and plain about what it needs."""

import numpy as np
import pytest

from isotherm.models import Logistic
from isotherm.paper.experiments import nuts
from isotherm.paper.experiments.laplace import laplace
from isotherm.paper.experiments.tasks import Materials

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype(np.float32)
Y = np.where(RNG.random(300) < 1 / (1 + np.exp(-X @ [2.0, -1.0, 0.5])), 1, -1).astype(np.float32)
TRAIN, TEST = {"x": X[:200], "y": Y[:200]}, {"x": X[200:], "y": Y[200:]}
MATERIALS = Materials(Logistic(3, prior_variance=1.0), TRAIN, np.zeros(3, np.float32), TEST)


def test_blackjax_missing_is_said_plainly(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "blackjax", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs blackjax: pip install 'isotherm\[paper\]'"):
        nuts.draw(MATERIALS, 10, 0)


def test_nuts_agrees_with_laplace_on_a_nearly_gaussian_posterior():
    around, draws = laplace(MATERIALS), nuts.draw(MATERIALS, 1000, 0)
    spread = np.sqrt(np.diag(np.linalg.inv(around.precision)))
    # Within 0.3 s.d.: the posterior's skewness with 200 examples, not Monte Carlo error (0.03), is what differs.
    assert (abs(draws.mean(axis=0) - around.mode) < 0.3 * spread).all()
    assert (abs(draws.std(axis=0) / spread - 1) < 0.2).all()


def test_the_reference_averages_every_draw_its_error_is_of(monkeypatch):
    positions = RNG.normal(size=(600, 3)).astype(np.float32)
    monkeypatch.setattr(nuts, "draw", lambda materials, draws, seed: positions)
    loss = nuts.measure(MATERIALS, 600)["metrics"]["expected_log_loss"]
    margins = -(TEST["y"][:, None] * (TEST["x"] @ positions.T)).astype(np.float64)
    assert loss == pytest.approx(np.logaddexp(0, margins).mean(), rel=1e-5)  # float32 predictions

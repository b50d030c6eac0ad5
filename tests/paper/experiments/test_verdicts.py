"""What `isotherm.check` says of a cell's draws: as it would say it of a run, without the cell's burn-in."""

import numpy as np
import pytest
import xarray

from isotherm.models import DRBM, Linear
from isotherm.paper.datasets.linear_regression import ExactPosterior
from isotherm.paper.experiments import verdicts
from isotherm.paper.experiments.tasks import Materials

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
    found = verdicts.of_run(tree(), MATERIALS, 0.2, 0)
    assert found["good"], found["lines"]
    assert found["bad"] == []
    assert found["checked_variance"] == pytest.approx(
        1, abs=0.15
    )  # 1,000 draws of 3 parameters: 3 errors of √(2.5/3000)
    assert found["checked_mean_error"] < 0.1
    assert found["passes"] > 0


def test_wrong_draws_are_wrong_by_as_much_as_they_are():
    found = verdicts.of_run(tree(2.0, 0.5), MATERIALS, 0.2, 0)
    assert not found["good"]
    assert {"mean", "variance"} <= set(found["bad"])
    assert found["checked_variance"] == pytest.approx(4, rel=0.15)
    assert found["checked_mean_error"] == pytest.approx(0.5, abs=0.2)  # the error of a mean is twice as large, 0.06


def test_large_models_are_not_checked():
    model = DRBM(16, 100, 26)
    wide = xarray.Dataset({"W": (["chain", "draw", "i"], np.zeros((1, 10, 1025)))})
    assert (
        verdicts.of_run(xarray.DataTree.from_dict({"posterior": wide}), Materials(model, DATA, model.init), 0, 0) == {}
    )

"""The model of a recipe is the estimators', with their priors, and chains begin at the average row's predictor."""

import jax
import numpy as np
import pytest

import isotherm
from isotherm.models import DRBM, GeneralisedLinear, Network
from isotherm.tables import model, preparing
from isotherm.tables.options import TableOptions

ROWS = 60
X = np.random.default_rng(2).normal(50, 20, (ROWS, 2))
TARGETS = {
    "linear": np.random.default_rng(3).normal(1000, 30, ROWS),
    "logistic": np.arange(ROWS) % 3 == 0,
    "softmax": np.arange(ROWS) % 3,
    "poisson": np.arange(ROWS) % 40,
    "mlp": np.arange(ROWS) % 2 == 0,
    "drbm": np.arange(ROWS) % 3,
}


@pytest.fixture(params=TARGETS)
def prepared(request, tmp_path):
    lines = [f"{a},{b},{'pq'[i % 2]},{y}" for i, ((a, b), y) in enumerate(zip(X, TARGETS[request.param], strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["u,v,g,y", *lines]) + "\n")
    return preparing.prepare(TableOptions(str(tmp_path / "t.csv"), target="y", model=request.param, holdout=0.0))


def test_the_model_and_its_prior_are_the_estimators(prepared):
    """But for levels, of which the estimators have none."""
    recipe = prepared.recipe
    built = model.build(recipe)
    estimator = {
        "linear": isotherm.BayesianLinearRegression,
        "logistic": isotherm.BayesianLogisticRegression,
        "softmax": isotherm.BayesianLogisticRegression,
        "poisson": isotherm.BayesianPoissonRegression,
        "mlp": isotherm.BayesianMLPClassifier,
        "drbm": isotherm.DiscriminativeRBMClassifier,
    }[recipe.model]()
    assert (built.features, built.levels) == (2, 2)
    assert built.prior_variance == estimator.prior_scale**2
    if recipe.model == "drbm":
        assert isinstance(built, DRBM)
    elif recipe.model == "mlp":
        assert isinstance(built, Network)
        assert built.output_scale == estimator.output_scale
    else:
        assert isinstance(built, GeneralisedLinear)
        assert built.intercept_variance == estimator.intercept_scale**2


def test_chains_begin_at_the_average_row(prepared):
    recipe, train, _ = prepared
    built = model.build(recipe)
    start = model.start(recipe, built, train)
    if recipe.model in ("mlp", "drbm"):  # near a mode, which another test climbs to
        assert callable(start)
        return
    row = {name: column[0] for name, column in train.items()}
    mean = np.asarray(built.mean(jax.tree.map(jax.numpy.asarray, start), row))
    shares = np.unique(TARGETS[recipe.model], return_counts=True)[1] / ROWS
    expected = {"gaussian": 0.0, "bernoulli": shares[-1], "categorical": shares, "poisson": TARGETS["poisson"].mean()}
    np.testing.assert_allclose(mean, expected[recipe.target.family], rtol=1e-5, atol=1e-6)


def test_an_option_narrows_the_prior(tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(["u,y", *(f"{u},{u > 50}" for u in X[:, 0])]) + "\n")
    made = preparing.prepare(TableOptions(str(tmp_path / "t.csv"), target="y", prior_scale=0.5)).recipe
    assert model.build(made).prior_variance == 0.25

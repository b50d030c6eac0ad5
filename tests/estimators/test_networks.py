import numpy as np
import pytest

import isotherm

pytestmark = pytest.mark.filterwarnings("ignore:Bayesian|Discriminative:sklearn.exceptions.ConvergenceWarning")


def moons(rows, seed=0):
    """Two arcs that no line separates."""
    rng = np.random.default_rng(seed)
    angle, y = rng.uniform(0, np.pi, rows), rng.integers(0, 2, rows)
    X = np.column_stack([np.cos(angle) + y, np.sin(angle) * (1 - 2 * y) + 0.5 * y])
    return 10 * (X + 0.1 * rng.normal(size=X.shape)), np.array(["up", "down"])[y]


@pytest.mark.parametrize(
    "name", ["BayesianMLPClassifier", pytest.param("DiscriminativeRBMClassifier", marks=pytest.mark.slow)]
)
def test_bends_where_a_line_would_fail(name):
    """A line gets about 87 % of such arcs right."""
    X, y = moons(250)
    hidden = 8 if name == "DiscriminativeRBMClassifier" else (8,)
    model = getattr(isotherm, name)(hidden=hidden, steps=400, chains=2, random_state=0).fit(X, y)
    test, truth = moons(500, seed=1)
    assert model.score(test, truth) > 0.95
    p = model.predict_proba(test)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    chosen = p[np.arange(500), np.searchsorted(model.classes_, truth)]
    assert -np.log(chosen).mean() < 0.2
    low, high = model.credible_interval(test[:5])
    assert low.shape == (5, 2)
    assert (low <= p[:5]).all()
    assert (p[:5] <= high).all()
    assert {"R-hat", "effective draws", "divergences"} <= {line.name for line in model.check_.table}


@pytest.mark.slow
def test_regression_knows_where_there_were_no_data():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-3, -1, 60), rng.uniform(1, 3, 60)])
    y = 100 + 20 * np.sin(2 * x) + rng.normal(size=120)
    model = isotherm.BayesianMLPRegressor(hidden=(16,), prior_scale=2.0, steps=1500, random_state=0)
    model.fit(x[:, None], y)
    assert model.score(x[:, None], y) > 0.97
    low, high = model.credible_interval([[0.0], [2.0]])
    assert high[0] - low[0] > 3 * (high[1] - low[1])
    sd = model.predict(x[:, None], return_std=True)[1]
    assert 0.8 < sd.mean() < 3  # noise of 1, and what is not known


@pytest.mark.slow
def test_says_when_predictions_do_not_agree():
    X, y = moons(60)
    with pytest.warns(UserWarning, match="BayesianMLPClassifier"):
        isotherm.BayesianMLPClassifier(hidden=(8,), steps=16, chains=2, random_state=0).fit(X, y)

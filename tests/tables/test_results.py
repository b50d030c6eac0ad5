"""Coefficients on the scale of the table say what the model says; scores against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

from isotherm.tables import preparing, results
from isotherm.tables.model import Predicted
from isotherm.tables.options import TableOptions

ROWS, DRAWS = 60, 200
RNG = np.random.default_rng(2)


@pytest.fixture(params=["linear", "logistic", "softmax"])
def prepared(request, tmp_path):
    x, g = RNG.normal(50, 20, ROWS), RNG.integers(0, 3, ROWS)
    y = {"linear": RNG.normal(1000, 30, ROWS), "logistic": np.arange(ROWS) % 2, "softmax": np.arange(ROWS) % 3}
    rows = zip(x, ["" if i % 9 == 0 else "abc"[level] for i, level in enumerate(g)], y[request.param], strict=True)
    (tmp_path / "t.csv").write_text("\n".join(["x,g,y", *(f"{a},{b},{c}" for a, b, c in rows)]) + "\n")
    options = TableOptions(str(tmp_path / "t.csv"), target="y", model=request.param, missing="mean", holdout=0.0)
    return preparing.prepare(options)


def test_coefficients_say_what_the_model_says(prepared):
    """The predictor of each row from the coefficients' means is the mean of the predictor over draws."""
    recipe, train, _ = prepared
    k = len(recipe.target.classes) if recipe.target.family == "categorical" else 1
    draws = {"intercept": (DRAWS, k), "coef": (DRAWS, k, 1), "effects": (DRAWS, 3, k), "log_sigma": (DRAWS,)}
    draws = {name: RNG.standard_normal(shape) for name, shape in draws.items()}
    there = np.where(train["codes"][:, 0] < 0, 0.0, 1.0)
    effects = draws["effects"][:, train["codes"][:, 0]] * there[None, :, None]
    eta = draws["intercept"][:, None] + draws["coef"][:, None, :, 0] * train["x"][None] + effects
    expected = recipe.target.mean + recipe.target.scale * (eta - (eta.mean(axis=2, keepdims=True) if k > 1 else 0))
    given = draws if k > 1 else {name: np.squeeze(values, -1 if name != "coef" else 1) for name, values in
                                 draws.items() if name != "log_sigma"} | {"log_sigma": draws["log_sigma"]}  # fmt: skip
    found = results.coefficients(recipe, given)

    by_name = {(each.name, each.of): each.mean for each in found}
    classes = recipe.target.classes if k > 1 else ("",)
    x = train["x"][:, 0] * recipe.numbers[0].scale + recipe.numbers[0].mean
    for place, of in enumerate(classes):
        levels = np.array([by_name[f"g: {level}", of] for level in recipe.levels[0].levels])
        # A missing level has the effect 0 of the model: minus the average row's.
        average = np.mean(np.where(there > 0, draws["effects"][:, train["codes"][:, 0]].mean(axis=0).T, 0), axis=1)
        if k > 1:
            average = average - average.mean()
        none = -recipe.target.scale * average[place]
        effect = np.where(there > 0, levels[train["codes"][:, 0]], none)
        eta_found = by_name["intercept", of] + by_name["x", of] * x + effect
        np.testing.assert_allclose(eta_found, expected.mean(axis=0)[:, place], rtol=1e-4, atol=1e-4)  # x in float32


def test_intervals_are_quantiles_of_draws(prepared):
    recipe = prepared.recipe
    if recipe.target.family == "categorical":
        pytest.skip("one is enough")
    draws = {"intercept": (DRAWS,), "coef": (DRAWS, 1), "effects": (DRAWS, 3), "log_sigma": (DRAWS,)}
    draws = {name: RNG.standard_normal(shape) for name, shape in draws.items()}
    slope = next(each for each in results.coefficients(recipe, draws) if each.kind == "number")
    scaled = draws["coef"][:, 0] * recipe.target.scale / recipe.numbers[0].scale
    np.testing.assert_allclose((slope.low, slope.high), np.quantile(scaled, [0.025, 0.975]))
    assert slope.deviation == pytest.approx(scaled.std())


def test_scores_of_classes(prepared):
    recipe = prepared.recipe
    if not recipe.target.classes:
        pytest.skip("classes only")
    k = len(recipe.target.classes)
    p, y = RNG.dirichlet(np.ones(k), 500), RNG.integers(0, k, 500)
    predicted = Predicted(p, p, p, p, p, p)
    found = {each.name: each for each in results.scores(recipe, predicted, np.log(p[np.arange(500), y]), y)}
    assert found["log loss"].value == pytest.approx(metrics.log_loss(y, p))
    assert found["accuracy"].value == pytest.approx(metrics.accuracy_score(y, p.argmax(axis=1)))
    shares = np.full((500, k), 1 / k)  # the classes of the table are as frequent as each other
    assert found["log loss"].average == pytest.approx(metrics.log_loss(y, shares))


def test_scores_of_numbers(prepared):
    recipe = prepared.recipe
    if recipe.target.classes:
        pytest.skip("numbers only")
    z = RNG.standard_normal(4000)
    y = recipe.target.mean + recipe.target.scale * z
    mean, width = np.full(4000, recipe.target.mean), 1.96 * recipe.target.scale
    predicted = Predicted(mean, mean, mean, mean, mean - width, mean + width)
    found = {each.name: each.value for each in results.scores(recipe, predicted, -0.5 * z**2 - 0.919, z)}
    assert found["root mean square error"] == pytest.approx(np.sqrt(metrics.mean_squared_error(y, mean)))
    assert found["coverage"] == pytest.approx(0.95, abs=5 * np.sqrt(0.05 * 0.95 / 4000))
    density = -0.5 * ((y - recipe.target.mean) / recipe.target.scale) ** 2 - np.log(recipe.target.scale) - 0.919
    assert found["log loss"] == pytest.approx(-density.mean())


def test_reliability_counts_every_row_once():
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.25, 0.75]])
    predicted, came, counts = results.reliability(p, np.array([0, 1, 0]))
    assert counts.sum() == 3
    np.testing.assert_allclose(np.average(predicted, weights=counts), p[:, 1].mean())
    np.testing.assert_allclose(np.average(came, weights=counts), 1 / 3)

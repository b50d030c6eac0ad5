"""Against posteriors that are known: conjugate ones, and maximum likelihood where the prior does not matter."""

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import isotherm

UNITS = np.array([1.0, 100.0, 0.01])


def table(rows=240, seed=0):
    X = np.random.default_rng(seed).normal(size=(rows, 3)) * UNITS + 5 * UNITS
    return X, X @ (np.array([1.0, -1.0, 0.5]) / UNITS)


@pytest.fixture(scope="module")
def linear():
    X, eta = table()
    y = 7 + 3 * (eta + 0.5 * np.random.default_rng(1).normal(size=len(X)))
    return X, y, isotherm.BayesianLinearRegression(random_state=0).fit(X, y)


def test_linear_regression_is_the_conjugate_posterior(linear):
    """With many more rows than coefficients and a wide prior: the mean is that of least squares, σ's the residuals',
    the covariance σ²(XᵀX)⁻¹. 400 effective draws know a mean to 0.05 standard deviations, and a standard deviation to
    4 %; four of those, and the prior's pull, which is 1/(1 + 240 · 2.5²/0.1) of a coefficient."""
    X, y, model = linear
    D = np.column_stack([X, np.ones(len(X))])
    best, rest, *_ = np.linalg.lstsq(D, y)
    sigma = np.sqrt(rest[0] / (len(X) - 4))
    sd = sigma * np.sqrt(np.diag(np.linalg.inv(D.T @ D)))
    draws = model.posterior_.posterior
    assert (abs(model.coef_ - best[:3]) < 0.25 * sd[:3]).all()
    assert abs(model.intercept_ - best[3]) < 0.25 * sd[3]
    np.testing.assert_allclose(draws.coef.std(("chain", "draw")), sd[:3], rtol=0.16)
    np.testing.assert_allclose(draws.sigma.mean(), sigma, rtol=0.02)
    assert draws.coef.dims == ("chain", "draw", "feature")


def test_predictions_of_a_regressor(linear):
    X, y, model = linear
    mean, sd = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, X @ model.coef_ + model.intercept_, rtol=1e-3)
    np.testing.assert_allclose(model.predict(X), mean)
    inside = abs(y - mean) < 1.96 * sd
    assert 0.90 < inside.mean() < 0.99  # 240 rows: 0.95 ± 3 · 0.014
    low, high = model.credible_interval(X, level=0.9)
    assert (low < mean).all()
    assert (mean < high).all()
    draws = model.posterior_.posterior
    lines = draws.coef.values.reshape(-1, 3) @ X[0] + draws.intercept.values.ravel()
    np.testing.assert_allclose([low[0], high[0]], np.quantile(lines, [0.05, 0.95]), atol=0.3 * lines.std())
    with pytest.raises(ValueError, match=r"level .*got 95"):
        model.credible_interval(X, level=95)


def test_verdict_is_that_of_check(linear):
    verdict = linear[2].check_
    assert verdict, verdict
    assert verdict.moments is not None
    assert linear[2].check_ is verdict


def test_logistic_regression_of_two_named_classes():
    X, eta = table(400)
    y = np.where(np.random.default_rng(1).random(400) < 1 / (1 + np.exp(-eta)), "yes", "no")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = isotherm.BayesianLogisticRegression(random_state=0).fit(frame, y)
    flat = make_pipeline(StandardScaler(), LogisticRegression(C=2.5**2)).fit(X, y)
    # The posterior mean is beyond the mode, by about d/N of itself and less than a tenth here.
    np.testing.assert_allclose(model.coef_ * X.std(axis=0), flat[1].coef_, rtol=0.1, atol=0.1)
    assert list(model.classes_) == ["no", "yes"]
    assert list(model.posterior_.posterior.feature.values) == ["a", "b", "c"]
    p = model.predict_proba(frame)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(p, flat.predict_proba(X), atol=0.05)
    low, high = model.credible_interval(frame)
    assert (low < p).all()
    assert (p < high).all()


@pytest.mark.slow
def test_an_indicator_of_something_rare_has_the_prior_of_its_own_effect():
    """Of five rows in a thousand, all in one class, only the prior bounds the coefficient; truth by a grid."""
    X, y = np.zeros((1000, 1)), np.arange(1000) % 2
    X[:5], y[:5] = 1, 1
    model = isotherm.BayesianLogisticRegression(random_state=0).fit(X, y)
    coef = np.linspace(-10, 20, 601)[:, None]
    intercept = np.linspace(-0.5, 0.5, 201)
    scale, mean = X.std() / X.mean() ** 0.5, X.mean()
    log_p = -0.5 * (coef * scale / 2.5) ** 2 - 0.5 * ((intercept + coef * mean) / 10) ** 2
    log_p = log_p - 5 * np.logaddexp(0, -intercept - coef)
    log_p = log_p - 497 * np.logaddexp(0, -intercept) - 498 * np.logaddexp(0, intercept)
    p = np.exp(log_p - log_p.max()).sum(axis=1)
    p /= p.sum()
    expected = (p * coef[:, 0]).sum()
    deviation = (p * (coef[:, 0] - expected) ** 2).sum() ** 0.5
    draws = model.posterior_.posterior.coef.values
    # Of 400 effective draws: 4 standard errors.
    np.testing.assert_allclose(draws.mean(), expected, atol=0.2 * deviation)
    np.testing.assert_allclose(draws.std(), deviation, rtol=0.16)


@pytest.mark.slow
def test_poisson_regression_of_large_counts():
    """Far from λ = 1, where Newton's method would begin; counts of thousands leave the prior nothing to say."""
    X, eta = table()
    y = np.random.default_rng(1).poisson(np.exp(8 + 0.3 * eta))
    model = isotherm.BayesianPoissonRegression(random_state=0).fit(X, y)
    best = make_pipeline(StandardScaler(), PoissonRegressor(alpha=0, max_iter=1000, tol=1e-8)).fit(X, y)
    np.testing.assert_allclose(model.coef_ * X.std(axis=0), best[1].coef_, atol=2e-3)
    mean, sd = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, best.predict(X), rtol=1e-2)
    np.testing.assert_allclose(sd, np.sqrt(mean), rtol=0.1)
    with pytest.raises(ValueError, match="y must hold counts, got the negative value -1"):
        model.fit(X, y - y.min() - 1)


@pytest.mark.slow
def test_without_an_intercept_nothing_is_moved():
    X, eta = table()
    y = eta + 0.1 * np.random.default_rng(1).normal(size=len(X))
    model = isotherm.BayesianLinearRegression(fit_intercept=False, ess=100, random_state=0).fit(X, y)
    best = np.linalg.lstsq(X, y)[0]
    assert model.intercept_ == 0
    np.testing.assert_allclose(model.coef_ * UNITS, best * UNITS, atol=0.01)


@pytest.mark.long
def test_pipeline_grid_search_and_clone():
    X, eta = table()
    y = (eta > 0.5).astype(int)
    model = isotherm.BayesianLogisticRegression(ess=50, chains=2, random_state=0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model), {"bayesianlogisticregression__prior_scale": [0.01, 2.5]}, cv=3
    ).fit(X, y)
    assert search.best_params_ == {"bayesianlogisticregression__prior_scale": 2.5}
    assert not hasattr(clone(search.best_estimator_[1]), "posterior_")


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[1.0], [2.0]], [1, 1], "at least two classes with positive weight, got 1 class"),
        ([[1.0]], [1], "got 1 class"),
        ([[1.0], [np.nan]], [0, 1], "contains NaN"),
        (np.empty((0, 2)), [], "0 sample"),
    ],
)
def test_tables_that_cannot_be_fitted(X, y, words):
    with pytest.raises(ValueError, match=words):
        isotherm.BayesianLogisticRegression().fit(X, y)


@pytest.mark.slow
def test_columns_that_do_not_vary_and_targets_that_do_not():
    X = np.column_stack([np.ones(12), np.arange(12.0)])
    model = isotherm.BayesianLinearRegression(ess=50, chains=2, random_state=0).fit(X, np.full(12, 3.0))
    np.testing.assert_allclose(model.predict(X), 3, atol=0.05)

"""Bayesian models as scikit-learn estimators: `fit` is `isotherm.fit`, predictions are averages over the posterior."""

from isotherm.lib.optional import extra

with extra("estimators", "an estimator"):
    from isotherm.estimators.linear import (
        BayesianLinearRegression,
        BayesianLogisticRegression,
        BayesianPoissonRegression,
    )
    from isotherm.estimators.networks import BayesianMLPClassifier, BayesianMLPRegressor, DiscriminativeRBMClassifier

__all__ = [
    "BayesianLinearRegression",
    "BayesianLogisticRegression",
    "BayesianMLPClassifier",
    "BayesianMLPRegressor",
    "BayesianPoissonRegression",
    "DiscriminativeRBMClassifier",
]

"""Bayesian models as scikit-learn estimators: `fit` is `isotherm.fit`, predictions are averages over the posterior."""

from isotherm.lib.optional import require

require("sklearn", "estimators", "an estimator")

from isotherm.estimators.linear import (  # noqa: E402
    BayesianLinearRegression,
    BayesianLogisticRegression,
    BayesianPoissonRegression,
)
from isotherm.estimators.networks import (  # noqa: E402
    BayesianMLPClassifier,
    BayesianMLPRegressor,
    DiscriminativeRBMClassifier,
)

__all__ = [
    "BayesianLinearRegression",
    "BayesianLogisticRegression",
    "BayesianMLPClassifier",
    "BayesianMLPRegressor",
    "BayesianPoissonRegression",
    "DiscriminativeRBMClassifier",
]

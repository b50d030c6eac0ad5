"""Bayesian models as scikit-learn estimators: `fit` is `isotherm.fit`, predictions are averages over the posterior."""

from isotherm.lib.optional import require

require("sklearn", "estimators", "an estimator")

"""scikit-learn's own checks, none excepted. They fit some fifty small tables each: so few draws, two chains."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import isotherm

FEW = {"ess": 50, "chains": 2}
SHORT = {"steps": 200, "chains": 2, "hidden": 3}
pytestmark = [
    pytest.mark.filterwarnings("ignore:Bayesian|Discriminative:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@parametrize_with_checks([isotherm.BayesianLinearRegression(**FEW)])
def test_default(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(
    [
        isotherm.BayesianLogisticRegression(**FEW),
        isotherm.BayesianPoissonRegression(**FEW),
        isotherm.DiscriminativeRBMClassifier(**SHORT),
        isotherm.BayesianMLPClassifier(**SHORT | {"hidden": (3,)}),
        isotherm.BayesianMLPRegressor(**SHORT | {"hidden": (3,)}),
    ]
)
def test_the_others(estimator, check):
    check(estimator)

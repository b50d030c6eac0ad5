"""scikit-learn's own checks, none excepted. They fit some fifty small tables each: so few draws, two chains."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import isotherm

FEW = {"ess": 50, "chains": 2}
SHORT = {"steps": 200, "chains": 2, "hidden": 3}
pytestmark = [
    pytest.mark.filterwarnings("ignore:Bayesian|Discriminative:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


# Checks that fit no table, or few of one shape; all of them are long.
QUICK = {
    "check_no_attributes_set_in_init",
    "check_estimators_unfitted",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_all_zero_sample_weights_error",
    "check_estimators_empty_data_messages",
    "check_classifiers_one_label_sample_weights",
    "check_fit2d_1sample",
    "check_dict_unchanged",
    "check_methods_subset_invariance",
}
LINEAR = [isotherm.BayesianLinearRegression(**FEW), isotherm.BayesianLogisticRegression(**FEW)]
OTHERS = [
    isotherm.BayesianPoissonRegression(**FEW),
    isotherm.DiscriminativeRBMClassifier(**SHORT),
    isotherm.BayesianMLPClassifier(**SHORT | {"hidden": (3,)}),
    isotherm.BayesianMLPRegressor(**SHORT | {"hidden": (3,)}),
]


def name_of(check):
    return getattr(check, "func", check).__name__


@pytest.mark.slow
@pytest.mark.parametrize("estimator", LINEAR, ids=lambda estimator: type(estimator).__name__)
def test_some_checks(estimator):
    quick = [check for _, check in estimator_checks_generator(estimator) if name_of(check) in QUICK]
    assert len(quick) >= 8
    for check in quick:
        check(clone(estimator))


@pytest.mark.long
@parametrize_with_checks([*LINEAR, *OTHERS])
def test_all_checks(estimator, check):
    check(estimator)

import numpy as np
import pytest

from isotherm import diagnostics

P = np.array([[[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [[0.5, 0.5], [0.4, 0.6], [0.1, 0.9]]])
LOG_P, Y = np.log(P), np.array([0, 1, 0])


def test_losses_by_hand():
    first = -(np.log(0.9) + np.log(0.8) + np.log(0.6)) / 3
    second = -(np.log(0.5) + np.log(0.6) + np.log(0.1)) / 3
    assert diagnostics.log_loss(LOG_P[0], Y) == pytest.approx(first)
    np.testing.assert_allclose(diagnostics.log_losses(LOG_P, Y), [first, second])
    assert diagnostics.expected_log_loss(LOG_P, Y) == pytest.approx((first + second) / 2)
    predictive = -(np.log(0.7) + np.log(0.7) + np.log(0.35)) / 3
    assert diagnostics.predictive_log_loss(LOG_P, Y) == pytest.approx(predictive)


def test_errors_by_hand():
    assert diagnostics.error(LOG_P[0], Y) == 0
    assert diagnostics.error(LOG_P[1], Y) == pytest.approx(1 / 3)
    assert diagnostics.predictive_error(LOG_P, Y) == pytest.approx(1 / 3)


def test_averaging_never_costs():
    """Jensen: the predictive's loss is at most the expected loss."""
    rng = np.random.default_rng(0)
    log_p = np.log(rng.dirichlet(np.ones(4), size=(20, 30)))
    y = rng.integers(0, 4, size=30)
    assert diagnostics.predictive_log_loss(log_p, y) < diagnostics.expected_log_loss(log_p, y)
    np.testing.assert_allclose(np.exp(diagnostics.average(log_p)), np.exp(log_p).mean(axis=0))


def test_impossible_and_diverged_are_told_apart():
    sure = np.array([[0.0, -np.inf]])
    assert diagnostics.log_loss(sure, [1]) == np.inf
    assert diagnostics.error(sure, [1]) == 1
    assert diagnostics.predictive_log_loss(sure[None], [1]) == np.inf
    assert np.isnan(diagnostics.log_loss(sure * np.nan, [1]))
    assert np.isnan(diagnostics.error(sure * np.nan, [1]))
    assert np.isnan(diagnostics.predictive_error((sure * np.nan)[None], [1]))


@pytest.mark.parametrize(
    ("log_p", "y", "words"),
    [
        (LOG_P, Y, r"shape \(m, classes\).*got \(2, 3, 2\)"),
        (P[0], Y, "must not be positive, got 0.9: are they probabilities"),
        (LOG_P[0], Y[:2], r"labels must have shape \(3,\).*got \(2,\)"),
        (LOG_P[0], [0, 1, 2], "labels must be whole numbers from 0 to 1, got 0 to 2"),
        (LOG_P[0], [-1, 1, 1], "class_index"),
        (LOG_P[0], [0.5, 1, 1], "whole numbers"),
    ],
)
def test_refuses_what_does_not_fit(log_p, y, words):
    with pytest.raises(ValueError, match=words):
        diagnostics.log_loss(log_p, y)
    with pytest.raises(ValueError, match=r"\(draws, m, classes\)"):
        diagnostics.average(LOG_P[0])

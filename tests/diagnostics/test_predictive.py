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
    predictive = -(np.log(0.7) + np.log(0.7) + np.log(0.35)) / 3
    assert diagnostics.log_loss(diagnostics.average(LOG_P), Y) == pytest.approx(predictive)


def test_errors_by_hand():
    assert diagnostics.error(LOG_P[0], Y) == 0
    assert diagnostics.error(LOG_P[1], Y) == pytest.approx(1 / 3)
    assert diagnostics.error(diagnostics.average(LOG_P), Y) == pytest.approx(1 / 3)


def test_averaging_never_costs():
    """Jensen: the predictive's loss is at most the expected loss."""
    rng = np.random.default_rng(0)
    log_p = np.log(rng.dirichlet(np.ones(4), size=(20, 30)))
    y = rng.integers(0, 4, size=30)
    assert diagnostics.log_loss(diagnostics.average(log_p), y) < diagnostics.log_losses(log_p, y).mean()
    np.testing.assert_allclose(np.exp(diagnostics.average(log_p)), np.exp(log_p).mean(axis=0))


def test_impossible_and_diverged_are_told_apart():
    sure = np.array([[0.0, -np.inf]])
    assert diagnostics.log_loss(sure, [1]) == np.inf
    assert diagnostics.error(sure, [1]) == 1
    assert diagnostics.log_loss(diagnostics.average(sure[None]), [1]) == np.inf
    assert np.isnan(diagnostics.log_loss(sure * np.nan, [1]))
    assert np.isnan(diagnostics.error(sure * np.nan, [1]))
    assert np.isnan(diagnostics.error(diagnostics.average((sure * np.nan)[None]), [1]))


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


def test_calibration_by_hand():
    p = np.array([[0.95, 0.05], [0.95, 0.05], [0.3, 0.7], [0.4, 0.6]])
    y = np.array([0, 1, 1, 1])
    # ten bins: {0.95, 0.95} accuracy ½; {0.7} and {0.6} accuracy 1
    expected = (2 * abs(0.5 - 0.95) + abs(1 - 0.7) + abs(1 - 0.6)) / 4
    assert diagnostics.expected_calibration_error(p, y, bins=10) == pytest.approx(expected)


def test_honest_probabilities_score_near_zero():
    rng = np.random.default_rng(0)
    p1 = rng.uniform(size=100_000)
    y = (rng.uniform(size=p1.size) < p1).astype(int)
    p = np.stack([1 - p1, p1], axis=1)
    # each of 8 filled bins has a standard error of about √(0.2/12,500) = 0.004
    assert diagnostics.expected_calibration_error(p, y) < 0.008
    overconfident = p**3 / (p**3).sum(axis=1, keepdims=True)
    assert diagnostics.expected_calibration_error(overconfident, y) > 0.1


def test_calibration_edges_and_refusals():
    assert diagnostics.expected_calibration_error([[1.0, 0.0]], [0]) == 0
    assert np.isnan(diagnostics.expected_calibration_error([[np.nan, 0.0]], [0]))
    with pytest.raises(ValueError, match=r"bins .*got 0"):
        diagnostics.expected_calibration_error([[1.0, 0.0]], [0], bins=0)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\], got -2"):
        diagnostics.expected_calibration_error([[-2.0, -0.1]], [0])

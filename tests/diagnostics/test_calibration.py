import numpy as np
import pytest

from isotherm.diagnostics import expected_calibration_error


def test_by_hand():
    p = np.array([[0.95, 0.05], [0.95, 0.05], [0.3, 0.7], [0.4, 0.6]])
    y = np.array([0, 1, 1, 1])
    # ten bins: {0.95, 0.95} accuracy ½; {0.7} and {0.6} accuracy 1
    expected = (2 * abs(0.5 - 0.95) + abs(1 - 0.7) + abs(1 - 0.6)) / 4
    assert expected_calibration_error(p, y, bins=10) == pytest.approx(expected)


def test_honest_probabilities_score_near_zero():
    rng = np.random.default_rng(0)
    p1 = rng.uniform(size=100_000)
    y = (rng.uniform(size=p1.size) < p1).astype(int)
    p = np.stack([1 - p1, p1], axis=1)
    # each of 8 filled bins has a standard error of about √(0.2/12,500) = 0.004
    assert expected_calibration_error(p, y) < 0.008
    overconfident = p**3 / (p**3).sum(axis=1, keepdims=True)
    assert expected_calibration_error(overconfident, y) > 0.1


def test_edges_and_refusals():
    assert expected_calibration_error([[1.0, 0.0]], [0]) == 0
    assert np.isnan(expected_calibration_error([[np.nan, 0.0]], [0]))
    with pytest.raises(ValueError, match="bins must be at least 1, got 0"):
        expected_calibration_error([[1.0, 0.0]], [0], bins=0)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\], got -2"):
        expected_calibration_error([[-2.0, -0.1]], [0])

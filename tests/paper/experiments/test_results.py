"""Distances to a reference, and averages over seeds."""

import math

import pytest

from isotherm.paper.experiments import results


def test_distance_to_reference_of_itself_is_none():
    mine = {"whitened_mean": [0.1, 0.2], "whitened_variance": 2.0}
    assert results.distance(mine, mine) == {"variance_ratio": 1.0, "mean_error": 0.0}
    off = {"whitened_mean": [1.1, 1.2], "whitened_variance": 4.0}
    assert results.distance(off, mine) == {"variance_ratio": 2.0, "mean_error": pytest.approx(1.0)}


def test_one_diverged_seed_makes_the_average_nan():
    group = [{"metrics": {"w2": 0.1}}, {"metrics": {"w2": None}}]
    assert math.isnan(results.average(group, "w2")[0])
    assert results.average(group[:1], "w2") == (0.1, 0.0)


def test_a_diverged_cell_has_no_distance():
    assert results.distance({}, {"whitened_mean": [0.0], "whitened_variance": 1.0}) == {
        "variance_ratio": None,
        "mean_error": None,
    }

"""The search for the largest usable step, on losses that are functions."""

import math

import pytest

from isotherm.paper.experiments.largest_step import search, usable


def test_usable_is_finite_and_within_five_percent():
    assert usable(1.05, 1.0)
    assert not usable(1.0501, 1.0)
    assert not usable(math.nan, 1.0)
    assert not usable(math.inf, 1.0)


@pytest.mark.parametrize("edge", [1.3e-4, 7e-4, 0.0123])
def test_bisection_finds_the_edge_to_ten_percent(edge):
    largest = search(lambda h: 0.15 if h < edge else math.nan, 1e-4, 0.1)
    assert edge / 1.1 <= largest.step_size <= edge
    assert not largest.at_limit
    assert largest.trials[0][0] == 1e-4
    assert all(usable == (h < edge) for h, _, usable in largest.trials)


def test_a_loss_that_creeps_up_is_unusable_too():
    largest = search(lambda h: 1 + 100 * h, 1e-5, 0.1, precision=1.01)
    assert largest.step_size == pytest.approx(0.0005, rel=0.03)  # 1 + 100h = 1.05 (1 + 100e-5), to the precision


def test_the_limit_is_said():
    largest = search(lambda h: 1.0, 1e-3, 0.05)
    assert largest.step_size == 0.05
    assert largest.at_limit


def test_no_usable_step_at_all():
    largest = search(lambda h: math.nan, 1e-3, 0.05)
    assert largest.step_size is None
    assert len(largest.trials) == 1

"""Draws in memory, until the run ends."""

import numpy as np

from isotherm.run.chains import Snapshot
from isotherm.run.loop import Carry, Moments
from isotherm.run.plan import Plan
from isotherm.run.recorder import Labels, Recorder


def some(draws, first=0):
    """Draws of three chains and four parameters; each position holds its draw's number."""
    numbers = np.arange(first, first + draws, dtype=np.float32)
    return {"position": np.tile(numbers[:, None, None], (1, 3, 4)), "friction": np.tile(numbers[:, None], (1, 3))}


def test_draws_come_back_in_the_order_in_which_they_came(make):
    recorder = Recorder(Labels(make(), Plan(300, 60, 7)), some(0))
    unbroken = np.full(3, -1, np.int32)
    for first, draws in ((0, 5), (5, 0), (5, 2)):
        recorder.add(some(draws, first), unbroken)
    assert recorder.count == 7
    assert not recorder.wants_checkpoint()
    assert not recorder.keeps_state
    zeros = np.zeros((3, 4), np.float32)
    snapshot = Snapshot(Carry(None, Moments(zeros, zeros + 2, zeros + 9), unbroken), 110, 1.5)
    recorder.checkpoint(snapshot)
    tree = recorder.finish(snapshot)
    np.testing.assert_array_equal(tree.posterior.offset, [np.arange(7)] * 3)
    np.testing.assert_array_equal(tree.sample_stats.friction, [np.arange(7)] * 3)
    assert (tree.posterior_mean.slope == 2).all()
    assert (tree.posterior_variance.slope == 9).all()
    assert {"steps_done": 110, "interrupted": 1, "sampling_time": 1.5}.items() <= tree.attrs.items()


def test_a_run_without_draws_has_groups_without_draws(make):
    recorder = Recorder(Labels(make(), Plan(300, 60, 7)), some(0))
    zeros = np.zeros((3, 4), np.float32)
    tree = recorder.finish(Snapshot(Carry(None, Moments(zeros, zeros, zeros), np.full(3, -1, np.int32)), 10, 0.1))
    assert tree.posterior.slope.shape == (3, 0, 3)
    assert np.isnan(tree.posterior_mean.slope).all()


def test_a_goal_sees_the_draws_so_far_by_chain(make):
    recorder = Recorder(Labels(make(), Plan(300, 60, 7)), some(0))
    for first, draws in ((0, 2), (2, 3)):
        recorder.add(some(draws, first), np.full(3, -1, np.int32))
    watched = recorder.watched_draws()
    assert watched.shape == (3, 5, 4)
    np.testing.assert_array_equal(watched[1, :, 2], np.arange(5))
    recorder.labels.watched = np.array([1, 3])
    assert recorder.watched_draws().shape == (3, 5, 2)


def test_another_plan_from_here_on(make):
    recorder = Recorder(Labels(make(), Plan(300, 60, 7)), some(0))
    recorder.labels.replan(Plan(400, 60, 7))
    assert recorder.labels.attributes["steps"] == 400

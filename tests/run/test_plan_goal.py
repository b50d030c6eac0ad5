"""When a run is good enough, and how much longer it goes on if it is not."""

import numpy as np
import pytest

from isotherm.diagnostics.convergence import Convergence, convergence
from isotherm.run.plan import STEP_LIMIT, Goal, Plan

PLAN = Plan(steps=500, burn_in=100, thin=2)  # 200 draws
RNG = np.random.default_rng(0)
NAN = float("nan")


def found(bulk, tail=None, r_hat=1.0):
    bulk = np.atleast_1d(np.asarray(bulk, float))
    tail = bulk if tail is None else np.atleast_1d(np.asarray(tail, float))
    return Convergence(bulk, tail, np.broadcast_to(np.asarray(r_hat, float), bulk.shape))


@pytest.mark.parametrize(
    ("said", "met"),
    [
        (found([400, 500]), True),
        (found([399, 500]), False),
        (found([500, 500], [500, 399]), False),
        (found([500], r_hat=1.011), False),
        (found([500, NAN], r_hat=[1.0, NAN]), True),
        (found([NAN], r_hat=NAN), True),
    ],
    ids=["enough", "bulk", "tail", "R-hat", "one never moves", "none moves"],
)
def test_met(said, met):
    assert Goal(400, 10**6).is_met(said) == met
    assert (Goal(400, 10**6).extend(PLAN, said) == PLAN) == met


def test_a_plan_grows_by_what_is_missing():
    """400 draws of which 200 are there: twice as many, and a tenth more, so 240 more draws."""
    longer = Goal(400, 10**6).extend(PLAN, found([200, 300]))
    assert longer.draws - PLAN.draws in (240, 241)  # 2.2 − 1 is a bit more than 1.2
    assert longer == PLAN._replace(steps=longer.steps)


@pytest.mark.parametrize(
    ("said", "growth"), [(found([399]), 1.25), (found([10]), 4), (found([500], r_hat=1.05), 1.375)]
)
def test_it_grows_neither_little_nor_much(said, growth):
    """By a quarter at least, to four times at most; by 1.1 · 1.25 where R-hat alone is missing."""
    assert Goal(400, 10**6).extend(PLAN, said).draws == 200 * growth


def test_it_grows_to_the_most_steps_and_no_further():
    few = found([10])
    assert Goal(400, 600).extend(PLAN, few).steps == 600
    assert Goal(400, 500).extend(PLAN, few) == PLAN
    assert Goal(400, 10**12).extend(PLAN._replace(steps=STEP_LIMIT - 5), few).steps == STEP_LIMIT


def test_real_draws():
    """800 independent draws are worth 800, give or take 100; in four chains of 200."""
    worth = convergence(RNG.standard_normal((4, 200, 2)))
    assert Goal(400, 10**6).extend(PLAN, worth) == PLAN
    longer = Goal(4000, 10**6).extend(PLAN, worth)
    assert longer.draws == 200 * 4


def test_advice():
    """More time helps until the steps are used up."""
    assert Goal(400, 600).advice(500) == "give it more seconds, or go on with isotherm.resume if it has a store"
    assert Goal(400, 6000).advice(6000) == (
        "6,000 steps are the most that it makes by itself; add some with isotherm.resume(…, steps=…)"
    )


def test_time():
    assert not Goal(400, 10).is_over(1e9)
    assert not Goal(400, 10, 2.0).is_over(1.9)
    assert Goal(400, 10, 2.0).is_over(2.0)


@pytest.mark.parametrize(
    ("step", "seconds", "expected"),
    [
        (40, 2.4, PLAN),  # less than a quarter of the time
        (40, 2.5, PLAN._replace(burn_in=40)),  # 120 steps are left for draws
        (3, 5.0, PLAN._replace(burn_in=3, thin=1)),  # and here 3
        (3, 30.0, PLAN._replace(burn_in=3, thin=1)),
        (100, 30.0, PLAN),  # burn-in is over
    ],
)
def test_burn_in_has_a_quarter_of_the_time_at_most(step, seconds, expected):
    assert Goal(400, 10**6, seconds=10.0).end_burn_in(PLAN, step, seconds) == expected


def test_without_seconds_burn_in_is_as_planned():
    assert Goal(400, 10**6).end_burn_in(PLAN, 3, 1e6) == PLAN

"""Which steps are kept, at the boundaries of burn-in and thinning."""

from itertools import pairwise

import pytest

from isotherm.data.batches import Batches
from isotherm.run.plan import STEP_LIMIT, Plan, make_plan

BATCHES = Batches(200, 20)


def test_passes_are_steps(sample):
    assert sample(steps=None, passes=30).attrs["steps"] == 300


def test_a_pass_is_as_many_steps_as_batches_make_up_the_data():
    assert make_plan(None, 30, 0.2, 7, BATCHES) == Plan(300, 60, 7)
    assert make_plan(None, 0.34, 0.0, 1, BATCHES).steps == 3
    assert make_plan(None, 1e-9, 0.0, 1, BATCHES).steps == 1


def test_a_draw_is_complete_with_the_last_of_its_steps():
    plan = Plan(steps=30, burn_in=10, thin=7)
    ends = {0: 0, 9: 0, 10: 0, 11: 0, 16: 0, 17: 1, 18: 1, 23: 1, 24: 2, 30: 2}
    assert {step: plan.completed(step) for step in ends} == ends
    assert plan.draws == 2
    every = Plan(steps=30, burn_in=0, thin=1)
    assert [every.completed(step) for step in range(31)] == list(range(31))


def test_draws_are_those_completed_however_the_steps_are_divided():
    plan = Plan(steps=100, burn_in=13, thin=9)
    for length in (1, 5, 9, 40):
        stops = [*range(0, 100, length), 100]
        fresh = [plan.completed(b) - plan.completed(a) for a, b in pairwise(stops)]
        assert sum(fresh) == plan.draws == 87 // 9


def test_burn_in_is_a_fraction_rounded_down():
    assert make_plan(10, None, 0.29, 1, BATCHES).burn_in == 2
    assert make_plan(10, None, 0, 1, BATCHES).burn_in == 0
    assert make_plan(1, None, 0.999, 1, BATCHES) == Plan(1, 0, 1)


def test_the_last_draw_that_is_kept():
    assert make_plan(100, None, 0.2, 80, BATCHES).draws == 1
    with pytest.raises(ValueError, match=r"^thin=81 keeps no draw of the 80 steps after burn-in; lower thin or raise"):
        make_plan(100, None, 0.2, 81, BATCHES)


def test_a_longer_plan_keeps_its_burn_in():
    assert Plan(300, 60, 7).extended(100) == Plan(400, 60, 7)
    assert Plan(300, 60, 7).extended(0) == Plan(300, 60, 7)


def test_steps_are_counted_in_32_bits():
    assert Plan(300, 60, 7).extended(STEP_LIMIT - 300).steps == 2**31 - 1
    with pytest.raises(ValueError, match=r"^steps .*got 2147483648$"):
        Plan(300, 60, 7).extended(STEP_LIMIT - 299)
    for steps, passes in ((2**31, None), (None, 2.0**31 / 10)):
        with pytest.raises(ValueError, match=r"^steps .*got 2147483648$"):
            make_plan(steps, passes, 0.2, 7, BATCHES)


def test_steps_or_passes_but_one_of_them():
    for steps, passes in ((None, None), (10, 1.0)):
        with pytest.raises(ValueError, match=f"^give one of steps and passes, got steps={steps} and passes={passes}$"):
            make_plan(steps, passes, 0.2, 7, BATCHES)

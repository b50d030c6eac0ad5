"""What will be asked for is known before it is: as far as it does not depend on the state of a chain."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.data.alias_table import make_table
from isotherm.data.batches import Batches
from isotherm.run.row_requests import wishes

SHAPES = {"x": jax.ShapeDtypeStruct((100, 3), jnp.float32)}
BATCHES = Batches(100, 5)


class State(NamedTuple):
    position: jax.Array


STATE = State(jax.ShapeDtypeStruct((3,), jnp.float32))
KEYS = jax.random.split(jax.random.key(0), 3)


def total(batch):
    return batch[0]["x"].sum()


def found(function, step=7):
    """The wishes, computed in a compiled program and for two steps at a time, as they are used."""

    def of(step):
        return wishes(function, SHAPES, (step,), STATE)

    made = jax.jit(jax.vmap(of))(jnp.array([step, step + 1]))
    return [(np.asarray(wish.rows)[0], bool(wish.needed[0])) for wish in made]


def test_in_the_order_in_which_they_are_asked_for():
    table = make_table(np.arange(1.0, 101.0))

    def act(data, state, step):
        key = jax.random.fold_in(KEYS[0], step)
        value = total(data.answer(key, BATCHES, None)) * state.position
        return value + total(data.answer(KEYS[1], Batches(100, 8), table))

    (first, one), (second, two) = found(act)
    np.testing.assert_array_equal(first, BATCHES.rows(jax.random.fold_in(KEYS[0], 7)))
    np.testing.assert_array_equal(second, Batches(100, 8).weighted_rows(KEYS[1], table))
    assert one
    assert two


@pytest.mark.parametrize(("step", "expected"), [(3, [True, False]), (30, [False, True])])
def test_only_the_branch_that_is_known_to_be_taken_is_needed(step, expected):
    def act(data, state, step):
        return jax.lax.cond(
            step < 10,
            lambda: total(data.answer(KEYS[0], BATCHES, None)),
            lambda: jax.jit(lambda: total(data.answer(KEYS[1], BATCHES, None)))(),
        )

    assert [needed for _, needed in found(act, step)] == expected


def test_both_branches_are_needed_where_the_state_decides():
    def act(data, state, step):
        return jax.lax.cond(
            state.position[0] > 0,
            lambda: total(data.answer(KEYS[0], BATCHES, None)),
            lambda: total(data.answer(KEYS[1], BATCHES, None)),
        )

    assert [needed for _, needed in found(act)] == [True, True]


def test_everything_without_replacement_is_every_row():
    ((rows, _),) = found(lambda data, state, step: total(data.answer(KEYS[0], Batches(100, 100, replace=False), None)))
    np.testing.assert_array_equal(rows, np.arange(100))


def test_what_cannot_be_known_is_refused():
    def by_state(data, state, step):
        return total(data.answer(jax.random.key(state.position[0].astype(jnp.uint32)), BATCHES, None))

    def in_a_loop(data, state, step):
        def body(i, sum):
            return sum + total(data.answer(jax.random.fold_in(KEYS[0], i), BATCHES, None))

        return jax.lax.fori_loop(0, step, body, 0.0)

    with pytest.raises(TypeError, match="keys that depend on its state"):
        found(by_state)
    with pytest.raises(TypeError, match="batches inside of a while"):
        found(in_a_loop)

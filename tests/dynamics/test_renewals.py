"""Before which steps an average over batches takes up another one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from isotherm.dynamics.renewals import LONGEST_INTERVAL, Calendar, is_power_of_two


def due(calendar, first, last):
    steps = jnp.arange(first, last, dtype=jnp.int32)
    return np.asarray(steps)[np.asarray(jax.vmap(calendar.is_due)(steps))]


def test_steps_that_are_due():
    np.testing.assert_array_equal(due(Calendar(10), 0, 64), [0, 1, 2, 4, 8, 10, 16, 20, 30, 32, 40, 50, 60])


@pytest.mark.parametrize("calendar", [Calendar(7), Calendar(100), Calendar(5, 16), Calendar(1)], ids=str)
def test_the_next_step_that_is_due(calendar):
    until = np.asarray(jax.vmap(calendar.steps_to_next)(jnp.arange(4000, dtype=jnp.int32)))
    days = due(calendar, 0, 9000)
    following = days[np.searchsorted(days, np.arange(4000), side="right")] - np.arange(4000)
    np.testing.assert_array_equal(until, following)


@pytest.mark.parametrize("parts", [1, 16])
def test_renewals_become_rare(parts):
    """Sixteen of each part while the number of steps doubles, once that is fewer than one in `interval` steps."""
    assert len(due(Calendar(10, parts), 2**12, 2**13)) == 16 * parts


def test_the_curvature_is_renewed_as_often_at_first():
    steps = jnp.asarray([0, 1, 511, 512, 513, 1023, 1024, 2**20 + 1], jnp.int32)
    assert jax.vmap(Calendar(50).is_curvature_due)(steps).tolist() == [True] * 4 + [False, False, True, False]


def test_the_largest_steps_have_numbers():
    calendar, last = Calendar(LONGEST_INTERVAL), jnp.int32(2**31 - 2)
    assert bool(is_power_of_two(jnp.int32(2**30)))
    assert 1 <= int(calendar.steps_to_next(jnp.int32(2**30 - 1))) == 1
    assert not bool(calendar.is_due(last))

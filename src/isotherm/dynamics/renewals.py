"""The calendar of renewals: before which steps an average over batches takes up another one. Integers only.

Due are the steps 0, 1, 2, 4, 8, … and all multiples of an interval, which is constant at first. Later it grows with the
number of steps, since what has settled need not be measured as often.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from isotherm.lib.types import Array, Bool, Int

DOUBLING_RENEWALS = 16  # of the whole estimate while the number of steps doubles
CURVATURE_STEPS = 512  # in which K is renewed as often as S; after that only at powers of two, since it costs more
LONGEST_INTERVAL = 2**30  # steps: twice it is still a 32-bit step number


class Calendar(NamedTuple):
    """Renewals every `interval` steps at first, each of one of the `parts` of the estimate."""

    interval: int
    parts: int = 1

    def is_due(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        return is_power_of_two(step) | (step % self._interval_at(step) == 0)

    def is_curvature_due(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        """Return whether a renewal before this step is one of the curvature too."""
        return is_power_of_two(step) | (step < CURVATURE_STEPS)

    def steps_to_next(self, step: Int[Array, ""]) -> Int[Array, ""]:
        """Return how many steps, at least 1, lie between this one and the next that is due."""
        interval = self._interval_at(step)
        return jnp.minimum(interval - step % interval, jnp.left_shift(1, _bit_length(step)) - step)

    def _interval_at(self, step: Int[Array, ""]) -> Int[Array, ""]:
        power = jnp.left_shift(1, _bit_length(step | 1) - 1)  # the largest power of two that is at most `step`
        return jnp.maximum(self.interval, power // (DOUBLING_RENEWALS * self.parts))


def is_power_of_two(step: Int[Array, ""]) -> Bool[Array, ""]:
    """Return whether it is one, or 0."""
    return step & (step - 1) == 0


def _bit_length(step: Int[Array, ""]) -> Int[Array, ""]:
    """Return int.bit_length of a step's number, a 32-bit integer whether or not JAX has 64 bits."""
    return 32 - jax.lax.clz(step.astype(jnp.int32))

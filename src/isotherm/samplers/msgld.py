"""mSGLD: modified stochastic-gradient Langevin dynamics (Vollmer, Zygalakis & Teh 2016).

    θ += ηF̃ + √(2η/β)(I − (ηβ/4) S) R

SGLD whose added noise is lessened by what the force brings itself: the η²S of the force's noise is cancelled to first
order in η. S comes from this batch and acts through one product.
"""

from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import register_dataclass

from isotherm.lib.types import RandomKey
from isotherm.samplers.base import Overdamped, OverdampedState
from isotherm.samplers.sgld import SGLD
from isotherm.targets.noisy import Noisy


@register_dataclass
@dataclass(frozen=True)
class MSGLD(SGLD):
    def step(self, key: RandomKey, state: OverdampedState, noisy: Noisy) -> OverdampedState:
        R = jax.random.normal(key, state.position.shape, state.position.dtype)
        eta = self.step_size_at(state.step, R.dtype)
        S = noisy.covariance.whitened(self.inverse_root_mass(state.position))
        return self.move(state, noisy, R - eta / (4 * self.temperature) * S.matvec(R))


def msgld(step_size: Any, *, temperature: float = 1.0, mass: Any = None) -> MSGLD:
    """Build modified stochastic-gradient Langevin dynamics.

    Args:
        step_size: η, a number, a function of the step index, or "auto", which `isotherm.largest_step` then finds.
        temperature, mass: 1/β; M, a diagonal preconditioner: a number, a vector or a pytree like the parameters.
    """
    return MSGLD(**Overdamped.checked(step_size, temperature, mass))

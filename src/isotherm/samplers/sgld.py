"""SGLD: stochastic-gradient Langevin dynamics (Welling & Teh 2011).

    dθ = M⁻¹F̃(θ) dt + √(2/β) M^(−1/2) dW

leaves exp(−βU(θ)) invariant as the step size goes to zero; at a fixed one the force's noise makes it too wide.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from isotherm.lib.types import RandomKey, Vector
from isotherm.samplers.base import Overdamped, OverdampedState
from isotherm.targets.noisy import Noisy


@register_dataclass
@dataclass(frozen=True)
class SGLD(Overdamped):
    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> OverdampedState:
        return OverdampedState(position, jnp.zeros((), jnp.int32))

    def step(self, key: RandomKey, state: OverdampedState, noisy: Noisy) -> OverdampedState:
        R = jax.random.normal(key, state.position.shape, state.position.dtype)
        return self.move(state, noisy, R)

    def move(self, state: OverdampedState, noisy: Noisy, noise: Vector) -> OverdampedState:
        """θ += w(ηwF̃ + √(2η/β) noise), w = M^(−1/2)."""
        eta = self.step_size_at(state.step, noise.dtype)
        w = self.inverse_root_mass(state.position)
        change = w * (eta * (w * noisy.force) + jnp.sqrt(2 * eta * self.temperature) * noise)
        return OverdampedState(state.position + change, state.step + 1)


def sgld(step_size: Any, *, temperature: float = 1.0, mass: Any = None) -> SGLD:
    """Build stochastic-gradient Langevin dynamics.

    Args:
        step_size: η, a number, a function of the step index (a decreasing one makes it exact in the end), or "auto",
            which `isotherm.largest_step` then finds.
        temperature, mass: 1/β; M, a diagonal preconditioner: a number, a vector or a pytree like the parameters.
    """
    return SGLD(**Overdamped.checked(step_size, temperature, mass))

"""SGHMC: stochastic-gradient Hamiltonian Monte Carlo (Chen et al. 2014).

    dθ = M⁻¹p dt
    dp = F̃(θ) dt − A p dt + √(2(A − B̂)/β) M^(1/2) dW

leaves exp(−βU(θ)) invariant if B̂ = (h/2)β S is the noise that the force itself brings. B̂ is hard to know; with the
usual B̂ = 0 the chain is too hot. Explicit discretisation: friction acts on the old p, θ moves with the new.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from isotherm.lib import arguments
from isotherm.lib.types import RandomKey, Setting, Vector
from isotherm.samplers.base import State, Thermostat
from isotherm.targets.noisy import Noisy


@register_dataclass
@dataclass(frozen=True)
class SGHMC(Thermostat):
    noise_estimate: Setting

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> State:
        """As for thermostats, but A is a constant."""
        return super().init(key, position, noisy)._replace(target_friction=(), thermal_mass=())

    def step(self, key: RandomKey, state: State, noisy: Noisy) -> State:
        h = self.step_size_at(state.step, state.position.dtype)
        w = self.inverse_root_mass(state.position)
        A, B, T, p = self.friction, self.noise_estimate, self.temperature, state.momentum
        R = jax.random.normal(key, p.shape, p.dtype)
        p = p + h * (w * noisy.force) - h * A * p + jnp.sqrt(2 * h * (A - B) * T) * R
        return state._replace(position=state.position + h * w * p, momentum=p).stepped(h)


def sghmc(
    step_size: Any, friction: float = 1.0, *, temperature: float = 1.0, mass: Any = None, noise_estimate: float = 0.0
) -> SGHMC:
    """Build stochastic-gradient Hamiltonian Monte Carlo.

    Args:
        step_size: h, a number, a function of the step index, or "auto", which `isotherm.largest_step` then finds.
        friction, temperature: A and 1/β.
        mass: M, diagonal: a number, a vector or a pytree shaped like the parameters; 1 unless given.
        noise_estimate: B̂, the part of the noise that the force is thought to bring itself; at most `friction`.
    """
    checked = Thermostat.checked_thermostat(step_size, temperature, mass, friction, None)
    estimate = arguments.non_negative("noise_estimate", noise_estimate)
    if estimate > friction:
        raise ValueError(
            f"noise_estimate must not exceed friction, got {noise_estimate!r} and {friction!r}; raise the friction"
        )
    return SGHMC(**checked, noise_estimate=estimate)

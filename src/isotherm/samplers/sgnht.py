"""SGNHT: the stochastic-gradient Nosé–Hoover thermostat (Ding et al. 2014), also called adaptive Langevin.

    dθ = M⁻¹p dt
    dp = F̃(θ) dt − ξp dt + √(2A/β) M^(1/2) dW
    dξ = (p·M⁻¹p − d/β)/μ dt

ξ rises until it takes out the heat of the force's noise, and leaves exp(−βU(θ)) invariant if that noise has the
covariance σ²I, the same everywhere. Two discretisations: the explicit one of the original, in which the friction acts
on the old p and θ moves with the new, and any splitting such as the symmetric BADODAB (Leimkuhler & Shang 2016).
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from isotherm.dynamics import flows
from isotherm.lib.types import RandomKey, Vector
from isotherm.samplers.base import STATIC, State, Thermostat
from isotherm.targets.noisy import Noisy

LETTERS = "ABDO"


@register_dataclass
@dataclass(frozen=True)
class SGNHT(Thermostat):
    scheme: str = field(metadata=STATIC)

    def step(self, key: RandomKey, state: State, noisy: Noisy) -> State:
        if self.scheme == "euler":
            return self.explicit_step(key, state, noisy.force, 0.0)
        h = self.step_size_at(state.step, state.position.dtype)
        moves = flows.moves(self.scheme, LETTERS)
        letters = self.letters(key, state.position, noisy.force, moves)
        return flows.run(moves, letters, state, h).stepped(h)

    def explicit_step(self, key: RandomKey, state: State, force: Vector, damping: Vector | float) -> State:
        """p += hF̃ − hξp − h·damping + √(2hA/β)R; θ += hp; ξ += (h/μ)(p·p − d/β), in mass-whitened variables."""
        h = self.step_size_at(state.step, state.position.dtype)
        w, mu = self.inverse_root_mass(state.position), self.thermal_mass_of(state.position)
        A, T, xi, p = self.friction, self.temperature, state.friction, state.momentum
        R = jax.random.normal(key, p.shape, p.dtype)
        p = p + h * (w * force) - h * xi * p - h * damping + jnp.sqrt(2 * h * A * T) * R
        theta = state.position + h * w * p
        xi = xi + h / mu * (p @ p - p.size * T)
        return state._replace(position=theta, momentum=p, friction=xi).stepped(h)


def sgnht(
    step_size: Any,
    friction: float = 1.0,
    *,
    temperature: float = 1.0,
    thermal_mass: float | str | None = "auto",
    mass: Any = None,
    scheme: str = "euler",
) -> SGNHT:
    """Build the stochastic-gradient Nosé–Hoover thermostat.

    Args:
        step_size: h, a number, a function of the step index, or "auto", which `isotherm.largest_step` then finds.
        friction: A, the strength of the added noise; ξ starts there.
        temperature, thermal_mass: 1/β, and μ; "auto" is the number of parameters.
        mass: M, diagonal: a number, a vector or a pytree shaped like the parameters; 1 unless given.
        scheme: "euler", the explicit step of the original, or a word of the letters A, B, D, O such as "BADODAB".
    """
    if not isinstance(scheme, str) or scheme != "euler":
        flows.moves(scheme, LETTERS)
    return SGNHT(**Thermostat.checked_thermostat(step_size, temperature, mass, friction, thermal_mass), scheme=scheme)

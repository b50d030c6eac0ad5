"""CCAdL: the covariance-controlled adaptive Langevin thermostat (Shang et al. 2015).

    dθ = M⁻¹p dt
    dp = F̃(θ) dt − (h/2)β Ŝ M⁻¹p dt − ξp dt + √(2A/β) M^(1/2) dW
    dξ = (p·M⁻¹p − d/β)/μ dt

with Ŝ the running average, κ_t = 1/t, of the force's covariance over all batches so far, this one included. Explicit
discretisation as in SGNHT, so the step size is limited by h < √(4/(β λ_max(Ŝ))).
"""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax.tree_util import register_dataclass

from isotherm.dynamics.covariance import blend
from isotherm.lib import arguments
from isotherm.lib.types import RandomKey, Vector
from isotherm.samplers.base import STATIC, State, Thermostat
from isotherm.samplers.sgnht import SGNHT
from isotherm.targets.noisy import Noisy


@register_dataclass
@dataclass(frozen=True)
class CCAdL(SGNHT):
    """The memory of its state is the average Ŝ of the mass-whitened covariance: d×d, or its diagonal."""

    covariance: str = field(metadata=STATIC)

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> State:
        shape = position.shape * (2 if self.covariance == "dense" else 1)
        return super().init(key, position, noisy)._replace(memory=jnp.zeros(shape, position.dtype))

    def step(self, key: RandomKey, state: State, noisy: Noisy) -> State:
        p = state.momentum
        h = self.step_size_at(state.step, p.dtype)
        S = noisy.covariance.whitened(self.inverse_root_mass(state.position))
        batch = S.dense() if self.covariance == "dense" else S.diagonal()
        average = blend(state.memory, batch, 1 / (state.step + 1).astype(p.dtype))
        product = average @ p if self.covariance == "dense" else average * p
        damping = h / (2 * self.temperature) * product
        return self.explicit_step(key, state, noisy.force, damping)._replace(memory=average)


def ccadl(
    step_size: Any,
    friction: float = 1.0,
    *,
    temperature: float = 1.0,
    thermal_mass: float | str | None = "auto",
    mass: Any = None,
    covariance: str = "dense",
) -> CCAdL:
    """Build the covariance-controlled adaptive Langevin thermostat, as first published.

    Args:
        step_size: h, a number, a function of the step index, or "auto", which `isotherm.largest_step` then finds.
        friction: A, the effective friction; ξ starts there.
        temperature, thermal_mass: 1/β, and μ; "auto" is the number of parameters.
        mass: M, diagonal: a number, a vector or a pytree shaped like the parameters; 1 unless given.
        covariance: "dense" keeps a d×d average (it was once called "full"), "diagonal" its diagonal.
    """
    kind = "dense" if isinstance(covariance, str) and covariance == "full" else covariance
    return CCAdL(
        **Thermostat.checked_thermostat(step_size, temperature, mass, friction, thermal_mass),
        scheme="euler",
        covariance=arguments.choice("covariance", kind, ("dense", "diagonal")),
    )

"""CCAdL: the covariance-controlled adaptive Langevin thermostat (Shang et al. 2015).

    dθ = M⁻¹p dt
    dp = F̃(θ) dt − (h/2)β Ŝ M⁻¹p dt − ξp dt + √(2A/β) M^(1/2) dW
    dξ = (p·M⁻¹p − d/β)/μ dt

with Ŝ the running average, κ_t = 1/t, of the force's covariance over all batches so far, this one included. Explicit
discretisation as in SGNHT, so the step size is limited by h < √(4/(β λ_max(Ŝ))).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float, Int

from isotherm import arguments
from isotherm.covariance import blend, running
from isotherm.posterior import Noisy
from isotherm.samplers.base import STATIC, State, Thermostat
from isotherm.samplers.sgnht import SGNHT
from isotherm.types import RandomKey, Scalar, Vector


class CCAdLState(NamedTuple):
    """A thermostat's state and the average Ŝ of the mass-whitened covariance: d×d, or its diagonal."""

    position: Vector
    momentum: Vector
    friction: Scalar
    step: Int[Array, ""]
    kinetic_temperature: Scalar
    expm_error: Scalar
    average: Float[Array, "d *d"]


@register_dataclass
@dataclass(frozen=True)
class CCAdL(SGNHT):
    covariance: str = field(metadata=STATIC)

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> CCAdLState:  # type: ignore[override]
        shape = position.shape * (2 if self.covariance == "full" else 1)
        return CCAdLState(*super().init(key, position, noisy), jnp.zeros(shape, position.dtype))

    def step(self, key: RandomKey, state: CCAdLState, noisy: Noisy) -> CCAdLState:  # type: ignore[override]
        p = state.momentum
        h = self.step_size_at(state.step, p.dtype)
        S = noisy.covariance.whitened(self.inverse_root_mass(state.position))
        batch = S.dense() if self.covariance == "full" else S.diagonal()
        average = blend(state.average, batch, running((state.step + 1).astype(p.dtype)))
        product = average @ p if self.covariance == "full" else average * p
        damping = h / (2 * self.temperature) * product
        moved = self.explicit_step(key, State(*state[:-1]), noisy.force, damping)
        return CCAdLState(*moved, average)


def ccadl(
    step_size: Any,
    friction: float = 1.0,
    *,
    temperature: float = 1.0,
    thermal_mass: float | None = None,
    mass: Any = None,
    covariance: str = "full",
) -> CCAdL:
    """The covariance-controlled adaptive Langevin thermostat, as first published.

    Args:
        step_size: h, a number or a function of the step index.
        friction: A, the effective friction; ξ starts there.
        temperature: 1/β.
        thermal_mass: μ; the number of parameters unless given.
        mass: M, diagonal: a number, a vector or a pytree shaped like the parameters; 1 unless given.
        covariance: "full" keeps a d×d average, "diagonal" its diagonal.
    """
    return CCAdL(
        **Thermostat.checked(step_size, temperature, mass, friction, thermal_mass),
        scheme="euler",
        covariance=arguments.choice("covariance", covariance, ("full", "diagonal")),
    )

"""What every sampler is: `init(key, position, noisy) -> State` and `step(key, state, noisy) -> State`.

A sampler is a frozen dataclass and a pytree: its numbers are leaves, so that changing one recompiles nothing; its
words (scheme, expm) are static. A State is a NamedTuple with a `position`; each of its floating scalars is recorded
as a statistic of the run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Bool, Int

from isotherm import arguments, flows
from isotherm.posterior import Noisy
from isotherm.splitting import Moves
from isotherm.types import Number, RandomKey, Scalar, Vector

STATIC = {"static": True}  # marks a field that is part of the program rather than of its data


@runtime_checkable
class Sampler(Protocol):
    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> Any: ...
    def step(self, key: RandomKey, state: Any, noisy: Noisy) -> Any: ...


@runtime_checkable
class Renewing(Sampler, Protocol):
    """One that remembers batches: before a step that is due, the loop lets it see a batch that no force is made of.
    Which steps are due follows from their number and that of the parameters, so it is the same for all chains."""

    def due(self, step: Int[Array, ""], parameters: int) -> Bool[Array, ""]: ...
    def until_due(self, step: Int[Array, ""], parameters: int) -> Int[Array, ""]: ...
    def renew(self, key: RandomKey, state: Any, noisy: Noisy, due: Bool[Array, ""]) -> Any: ...


@register_dataclass
@dataclass(frozen=True)
class Overdamped:
    """The settings of the samplers without momentum: dθ = M⁻¹F̃ dt + √(2/β) M^(−1/2) dW."""

    step_size: Any
    temperature: float
    mass: Any

    @staticmethod
    def checked(step_size: Any, temperature: float, mass: Any) -> dict[str, Any]:
        return {
            "step_size": arguments.step_size(step_size),
            "temperature": arguments.positive("temperature", temperature),
            "mass": None if mass is None else arguments.mass(mass),
        }

    def step_size_at(self, step: Int[Array, ""], dtype: Any) -> Scalar:
        return jnp.asarray(self.step_size(step) if callable(self.step_size) else self.step_size, dtype)

    def inverse_root_mass(self, position: Vector) -> Vector | float:
        """w = M^(−1/2), flat; exactly 1.0 when no mass is set."""
        if self.mass is None:
            return 1.0
        if jnp.ndim(self.mass) == 1 and self.mass.shape != position.shape:
            raise ValueError(
                f"mass has {self.mass.size} entries but there are {position.size} parameters; give a number, "
                f"a vector of length {position.size} or a pytree shaped like the parameters"
            )
        return jax.lax.rsqrt(jnp.asarray(self.mass, position.dtype))


@register_dataclass
@dataclass(frozen=True)
class Thermostat(Overdamped):
    """The settings of the samplers with momentum, and the letters they share."""

    friction: float
    thermal_mass: float | None

    @staticmethod
    def checked(  # type: ignore[override]
        step_size: Any, temperature: float, mass: Any, friction: float, thermal_mass: float | None
    ) -> dict[str, Any]:
        return Overdamped.checked(step_size, temperature, mass) | {
            "friction": arguments.non_negative("friction", friction),
            "thermal_mass": None if thermal_mass is None else arguments.positive("thermal_mass", thermal_mass),
        }

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> "State":
        """p ~ N(0, M/β), ξ = A."""
        dtype = position.dtype
        momentum = jnp.sqrt(jnp.asarray(self.temperature, dtype)) * jax.random.normal(key, position.shape, dtype)
        friction = jnp.asarray(self.friction, dtype)
        zero = jnp.zeros((), dtype)
        return State(position, momentum, friction, jnp.zeros((), jnp.int32), kinetic_temperature(momentum), zero)

    def thermal_mass_of(self, position: Vector) -> float:
        return position.size if self.thermal_mass is None else self.thermal_mass

    def letters(self, key: RandomKey, position: Vector, force: Vector, moves: Moves) -> dict[str, "Letter"]:
        """A, B, O and D; the i-th O of the moves takes the i-th row of normal(key, (number of O's, d))."""
        w, mu = self.inverse_root_mass(position), self.thermal_mass_of(position)
        rows = sum(letter == "O" for letter, _ in moves)
        noise = normals(key, rows, position)

        def drift(s: Any, t: Number) -> Any:
            return s._replace(position=flows.drift(s.position, s.momentum, w, t))

        def kick(s: Any, t: Number) -> Any:
            return s._replace(momentum=flows.kick(s.momentum, w * force, t))

        def ornstein_uhlenbeck(s: Any, t: Number) -> Any:
            p = flows.ornstein_uhlenbeck(s.momentum, next(noise), s.friction, self.friction, self.temperature, t)
            return s._replace(momentum=p)

        def thermostat(s: Any, t: Number) -> Any:
            return s._replace(friction=flows.thermostat(s.friction, s.momentum, self.temperature, mu, t))

        return {"A": drift, "B": kick, "O": ornstein_uhlenbeck, "D": thermostat}


def normals(key: RandomKey, rows: int, like: Vector) -> Iterator[Vector]:
    """The rows of jax.random.normal(key, (rows, d)), each made of its uniform numbers when it is needed, so that what
    its computation needs exists for one row at a time."""
    lowest = np.nextafter(np.asarray(-1, like.dtype), np.asarray(0, like.dtype))
    for uniform in jax.random.uniform(key, (rows, like.size), like.dtype, lowest, 1):
        yield np.sqrt(2).astype(like.dtype) * jax.lax.erf_inv(uniform)


class State(NamedTuple):
    """Position θ, mass-whitened momentum M^(−1/2)p, friction ξ, and what the last step had to say."""

    position: Vector
    momentum: Vector
    friction: Scalar
    step: Int[Array, ""]
    kinetic_temperature: Scalar
    expm_error: Scalar

    def stepped(self) -> "State":
        """The state at the end of a step."""
        return self._replace(step=self.step + 1, kinetic_temperature=kinetic_temperature(self.momentum))


Letter = Callable[[Any, Any], Any]  # a state and a time to a state of the same kind


def kinetic_temperature(momentum: Vector) -> Scalar:
    """p·M⁻¹p/d, whose mean is 1/β when the sampler is right."""
    return momentum @ momentum / momentum.size

"""What a sampler is, and what the samplers of this package share.

A sampler is a frozen dataclass that is registered as a pytree (`jax.tree_util.register_dataclass`). Its numbers are
leaves, so that changing one recompiles nothing; its words (scheme, expm) are static fields.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from isotherm.data.batches import ExtraBatch
from isotherm.dynamics import flows
from isotherm.dynamics.flows import Moves
from isotherm.lib import arguments
from isotherm.lib.types import Array, Int, Number, RandomKey, Scalar, Setting, Vector
from isotherm.targets.noisy import Noisy

STATIC = {"static": True}  # marks a field that is part of the program rather than of its data

S = TypeVar("S")
Phase: TypeAlias = Literal["init", "step", "renewal"]  # `renew` is called in the last


@runtime_checkable
class Sampler(Protocol[S]):
    """Two pure functions of one chain. They may use `jax.numpy` only and know nothing of models, data or time loops.

    `key` is a random key for this call alone, `position` the parameters as one flat vector θ, and `noisy` what a batch
    says there: `noisy.force` and, computed only if it is used, `noisy.covariance` with `matvec(v)`, `trace()`,
    `diagonal()` and `dense()`.

    A state is a NamedTuple of arrays with at least `position` and `step`. Each of its floating scalars becomes a
    statistic of the run, recorded with every draw. The verdict of a run compares `kinetic_temperature` with the
    temperature of the sampler's `Traits`, and `friction` with `target_friction`, if there is one, within what
    `thermal_mass` leaves to chance.
    """

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> S:
        """Return the state in which a chain starts at `position`, with `step` = 0 (int32)."""

    def step(self, key: RandomKey, state: S, noisy: Noisy) -> S:
        """Return the state one step later; `noisy` was evaluated at `state.position`. Shapes and dtypes stay."""


@runtime_checkable
class Renewing(Sampler[S], Protocol[S]):
    """A sampler that remembers batches. Before some steps the loop calls `renew` with a batch that is not used for the
    force; which steps follows from their numbers and the number of parameters alone, the same for all chains."""

    def steps_to_renewal(self, step: Int[Array, ""], parameters: int) -> Int[Array, ""]:
        """Return how many steps, at least 1, from this one to the next that is due."""

    def renew(self, key: RandomKey, state: S, noisy: Noisy, step: Int[Array, ""]) -> S:
        """Return the state with this batch remembered if that is due before this step, else unchanged. `step` is the
        same number for all chains, so that a condition on it is a branch."""


class Traits(NamedTuple):
    """What a sampler says of itself with a method `traits()`; the defaults are for one that has none.

    `mass` is M, diagonal. `chooses_step_size`: whether it does where its field `step_size` is None; if not,
    `isotherm.sample` finds one. `assumes_constant_noise`: whether S has to be the same all over the posterior."""

    has_momentum: bool = False
    temperature: Setting = 1.0
    mass: Setting | None = None
    chooses_step_size: bool = True
    assumes_constant_noise: bool = False


@runtime_checkable
class DrawsExtraBatches(Sampler[S], Protocol[S]):
    """A sampler that evaluates further batches, with `noisy.on(name, position)`."""

    def extra_batches(self, phase: Phase, parameters: int, batch_size: int) -> dict[str, ExtraBatch]:
        """Return the batches that `init`, `step` or `renew` may evaluate besides the one of the force, by name. Their
        rows follow from the seed, the chain, the step and the name alone, so that they can be read ahead from disk."""
        ...


def extra_batches(sampler: Sampler[S], phase: Phase, parameters: int, batch_size: int) -> dict[str, ExtraBatch]:
    """Return the batches that a sampler declares; none if it does not say."""
    if not isinstance(sampler, DrawsExtraBatches):
        return {}
    return sampler.extra_batches(phase, parameters, batch_size)


def check_sampler(sampler: object) -> None:
    """Refuse what `sample` cannot use, and say why."""
    if isinstance(sampler, type) or not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a sampler such as isotherm.mccadl(step_size=1e-3), got {sampler!r}")
    if not is_dataclass(sampler) or jax.tree_util.all_leaves([sampler]):
        raise TypeError(
            f"sampler must be a frozen dataclass registered with jax.tree_util.register_dataclass, "
            f"got a plain {type(sampler).__name__}; see isotherm.Sampler"
        )


class State(NamedTuple):
    """The state of a thermostat: θ, the mass-whitened momentum M^(−1/2)p, ξ, the step's number, what the last step
    measured and its size, A and μ, unless ξ is a constant, and what is remembered of earlier batches."""

    position: Vector
    momentum: Vector
    friction: Scalar
    step: Int[Array, ""]
    kinetic_temperature: Scalar
    expm_error: Scalar
    step_size: Scalar
    target_friction: Scalar | tuple[()] = ()
    thermal_mass: Scalar | tuple[()] = ()
    memory: Any = ()

    def stepped(self, h: Scalar) -> "State":
        """Return the state at the end of a step of size h."""
        temperature = kinetic_temperature(self.momentum)
        return self._replace(step=self.step + 1, kinetic_temperature=temperature, step_size=h)


class OverdampedState(NamedTuple):
    """The state of a sampler without momentum."""

    position: Vector
    step: Int[Array, ""]


@register_dataclass
@dataclass(frozen=True)
class Overdamped:
    """The settings of the samplers without momentum: dθ = M⁻¹F̃ dt + √(2/β) M^(−1/2) dW."""

    step_size: Setting
    temperature: Setting
    mass: Setting

    def traits(self) -> Traits:
        return Traits(temperature=self.temperature, mass=self.mass, chooses_step_size=False)

    @staticmethod
    def checked(step_size: Any, temperature: float, mass: Any) -> dict[str, Any]:
        return {
            "step_size": arguments.unless_auto("step_size", step_size, arguments.step_size),
            "temperature": arguments.positive("temperature", temperature),
            "mass": None if mass is None else arguments.mass(mass),
        }

    def step_size_at(self, step: Int[Array, ""], dtype: Any) -> Scalar:
        if self.step_size is None:
            raise ValueError('step_size="auto" is looked for by isotherm.sample; a step of its own needs a number')
        return jnp.asarray(self.step_size(step) if callable(self.step_size) else self.step_size, dtype)

    def inverse_root_mass(self, position: Vector) -> Vector | Number:
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

    friction: Setting
    thermal_mass: Setting

    @staticmethod
    def checked_thermostat(
        step_size: Any, temperature: float, mass: Any, friction: float, thermal_mass: float | str | None
    ) -> dict[str, Any]:
        return Overdamped.checked(step_size, temperature, mass) | {
            "friction": arguments.non_negative("friction", friction),
            "thermal_mass": arguments.unless_auto("thermal_mass", thermal_mass, arguments.positive),
        }

    def traits(self) -> Traits:
        return super().traits()._replace(has_momentum=True)

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> State:
        """p ~ N(0, M/β), ξ = A."""
        dtype = position.dtype
        momentum = jnp.sqrt(jnp.asarray(self.temperature, dtype)) * jax.random.normal(key, position.shape, dtype)
        friction = jnp.asarray(1.0 if self.friction is None else self.friction, dtype)  # None: the sampler's own choice
        zero, mu = jnp.zeros((), dtype), jnp.asarray(self.thermal_mass_of(position), dtype)
        step, temperature = jnp.zeros((), jnp.int32), kinetic_temperature(momentum)
        return State(position, momentum, friction, step, temperature, zero, zero, friction, mu)

    def thermal_mass_of(self, position: Vector) -> Setting:
        return float(position.size) if self.thermal_mass is None else self.thermal_mass

    def letters(self, key: RandomKey, position: Vector, force: Vector, moves: Moves) -> dict[str, "Letter"]:
        """Return A, B, O and D; the i-th O of the moves takes the i-th row of normal(key, (number of O's, d))."""
        w, mu = self.inverse_root_mass(position), self.thermal_mass_of(position)
        noise = normals(key, sum(letter == "O" for letter, _ in moves), position)

        def ornstein_uhlenbeck(s: State, t: Number) -> State:
            p = flows.ornstein_uhlenbeck(s.momentum, next(noise), s.friction, self.friction, self.temperature, t)
            return s._replace(momentum=p)

        return {
            "A": lambda s, t: s._replace(position=flows.drift(s.position, s.momentum, w, t)),
            "B": lambda s, t: s._replace(momentum=flows.kick(s.momentum, w * force, t)),
            "O": ornstein_uhlenbeck,
            "D": lambda s, t: s._replace(friction=flows.thermostat(s.friction, s.momentum, self.temperature, mu, t)),
        }


Letter = Callable[[State, Any], State]  # a state and a time to the state after that time


def normals(key: RandomKey, rows: int, like: Vector) -> Iterator[Vector]:
    """Yield the rows of jax.random.normal(key, (rows, d)): the uniform numbers are drawn together, but each
    row is turned into normal ones when it is asked for, which needs memory for one row instead of all."""
    lowest = np.nextafter(np.asarray(-1, like.dtype), np.asarray(0, like.dtype))
    for uniform in jax.random.uniform(key, (rows, like.size), like.dtype, lowest, 1):
        yield np.sqrt(2).astype(like.dtype) * jax.lax.erf_inv(uniform)


def kinetic_temperature(momentum: Vector) -> Scalar:
    """p·M⁻¹p/d, whose mean is 1/β when the sampler is right."""
    return momentum @ momentum / momentum.size

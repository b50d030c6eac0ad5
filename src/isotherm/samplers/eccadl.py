"""eCCAdL: the covariance-controlled adaptive Langevin thermostat with an exact joint flow and a windowed covariance.

    dθ = M⁻¹p dt
    dp = F̃(θ) dt − (h/2)β Ŝ M⁻¹p dt − ξp dt + √(2A/β) M^(1/2) dW
    dξ = (p·M⁻¹p − d/β)/μ dt

is the equation of CCAdL and mCCAdL, and so is its invariant law. Two things differ. Drift, noise friction and
thermostat act during the same h, so they are solved together, exactly: letter E, scheme BOEOB. And Ŝ is an average
over a window of recent batches of its own, so that the friction does not follow the noise of the force it balances. The
stationary law then hardly depends on the step size (docs/eccadl.md).
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass
from jaxtyping import Array, Bool, Int

from isotherm import arguments
from isotherm.dynamics import flows, splitting
from isotherm.dynamics.covariance import Dense, Diagonal, Estimate, LowRank
from isotherm.posterior import Noisy
from isotherm.samplers.base import STATIC, State, Thermostat
from isotherm.types import Number, RandomKey, Scalar, Setting, Vector

LETTERS = "BEO"
ESTIMATES: dict[str, type[Estimate]] = {"dense": Dense, "low_rank": LowRank, "diagonal": Diagonal}
DENSE_UP_TO = 512  # parameters; beyond, eigh costs more than it gives
AUTO = 2.0  # (h²/2)β times an eigenvalue from the middle of S, at step_size="auto"
UNSEEN = 0.25  # (h/2)β times the mean eigenvalue outside a low-rank estimate, over A, at most, at step_size="auto"
RENEWALS = 16  # of the whole estimate while the number of steps doubles
RAMP = 100  # steps in which the bound on h at the start doubles
MOST_EVERY = 2**30  # twice it is still a 32-bit step number


@register_dataclass
@dataclass(frozen=True)
class ECCAdL(Thermostat):
    """The memory of its state is an estimate of the mass-whitened force's covariance (dynamics/covariance.py)."""

    window: Setting
    every: int | None = field(metadata=STATIC)
    scheme: str = field(metadata=STATIC)
    covariance: str | None = field(metadata=STATIC)
    rank: int = field(metadata=STATIC)

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> State:
        key, sketch_key = jax.random.split(key)
        S = noisy.covariance.whitened(self.inverse_root_mass(position))
        if self.step_size is None and S.scale == 0:
            raise ValueError(
                'step_size="auto" takes its measure from the noise of the gradients, and a batch of all the data, '
                "drawn without replacement, has none; give step_size a number"
            )
        estimate = ESTIMATES[self.kind(position.size)].first(S, position, self.rank, sketch_key)
        return super().init(key, position, noisy)._replace(memory=estimate)

    def step(self, key: RandomKey, state: State, noisy: Noisy) -> State:
        h = self._step_size(state, noisy.curvature_ratio)
        w, mu = self.inverse_root_mass(state.position), self.thermal_mass_of(state.position)
        moves = splitting.moves(self.scheme, LETTERS)

        def rate(values: Array) -> Array:
            """Γ = (h/2)βS, and a little more for large h, where the variance would be too large by K/S."""
            x = h * h / (2 * self.temperature) * values
            return x / h * (1 + noisy.curvature_ratio * jnp.tanh(x / 2))

        def joint(s: State, t: Number) -> State:
            """The kinetic temperature is the average along the flow."""
            moved, p, energy = flows.joint(lambda fs: s.memory.apply(fs, s.momentum), s.momentum, rate, t)
            return s._replace(
                position=flows.drift(s.position, moved, w, t),
                momentum=p,
                friction=s.friction + t / mu * (energy - p.size * self.temperature),
                kinetic_temperature=energy / p.size,
            )

        letters = self.letters(key, state.position, noisy.force, moves) | {"E": joint}
        return splitting.run(moves, letters, state, h)._replace(step=state.step + 1, step_size=h)

    def renew(self, key: RandomKey, state: State, noisy: Noisy, due: Bool[Array, ""]) -> State:
        S = noisy.covariance.whitened(self.inverse_root_mass(state.position))
        return state._replace(memory=state.memory.renewed(due, S, self.window, key))

    def renewal_due(self, step: Int[Array, ""], parameters: int) -> Bool[Array, ""]:
        """Before steps whose number is a power of two or a multiple of the interval."""
        return (step & (step - 1) == 0) | (step % self._interval(step, parameters) == 0)

    def steps_to_renewal(self, step: Int[Array, ""], parameters: int) -> Int[Array, ""]:
        interval = self._interval(step, parameters)
        return jnp.minimum(interval - step % interval, jnp.left_shift(1, _bit_length(step)) - step)

    def _interval(self, step: Int[Array, ""], parameters: int) -> Int[Array, ""]:
        """Steps between renewals: `every` at first; once S has settled, so many that the whole estimate is renewed
        RENEWALS times while the number of steps doubles."""
        kind = self.kind(parameters)
        default = max(50, parameters) if kind == "dense" else 5
        parts = ESTIMATES[kind].parts(parameters, self.rank)
        power = jnp.left_shift(1, _bit_length(step | 1) - 1)  # the largest power of two that is at most `step`
        return jnp.maximum(default if self.every is None else self.every, power // (RENEWALS * parts))

    def kind(self, parameters: int) -> str:
        """Which estimate of the covariance."""
        return self.covariance or ("dense" if parameters <= DENSE_UP_TO else "low_rank")

    def _step_size(self, state: State, curvature_ratio: float) -> Scalar:
        """h; at first no more than the curvature allows without any friction, and then twice that every RAMP steps, so
        that Ŝ follows a start far from the mode before h relies on it."""
        automatic = self.step_size is None
        h = self._auto(state, curvature_ratio) if automatic else self.step_size_at(state.step, state.position.dtype)
        grown = jnp.exp2(state.step.astype(h.dtype) / RAMP)
        return jnp.minimum(h, grown * _stable(curvature_ratio, state.memory.largest()))

    def _auto(self, state: State, curvature_ratio: float) -> Scalar:
        """(h²/2)βλ = AUTO in the middle of the spectrum. It is less where a low-rank estimate leaves directions out:
        h must be stable in the strongest of those, and A must outweigh their noise where it is above their mean."""
        strongest, mean = state.memory.unseen()
        h = jnp.sqrt(2 * AUTO * self.temperature / _positive(state.memory.middle()))
        h = jnp.minimum(h, _stable(curvature_ratio, strongest))
        outweighed = 2 * UNSEEN * self.friction * self.temperature / _positive(mean)
        return jnp.where(self.friction > 0, jnp.minimum(h, outweighed), h)


def _bit_length(step: Int[Array, ""]) -> Int[Array, ""]:
    """As Python's int.bit_length, of a step's number: a 32-bit integer (run/plan.py) whether or not JAX has 64 bits."""
    return 32 - jax.lax.clz(step.astype(jnp.int32))


def _stable(curvature_ratio: float, value: Scalar) -> Scalar:
    """1/√K for the curvature K = curvature_ratio·λ."""
    return jax.lax.rsqrt(_positive(curvature_ratio * value))


def _positive(value: Scalar) -> Scalar:
    return jnp.maximum(value, jnp.finfo(value.dtype).tiny)


def eccadl(
    step_size: Any = "auto",
    friction: float = 1.0,
    *,
    temperature: float = 1.0,
    thermal_mass: float | str | None = "auto",
    mass: Any = None,
    window: float = 20.0,
    every: int | str | None = "auto",
    scheme: str = "BOEOB",
    covariance: str | None = "auto",
    rank: int = 32,
) -> ECCAdL:
    """Our own successor to mCCAdL: accurate at any step size.

    Args:
        step_size: h, a number, a function of the step index, or "auto": the h at which (h²/2)βλ = 2 for an eigenvalue λ
            from the middle of the covariance's spectrum.
        friction: A, the effective friction; ξ starts there and has it as its mean.
        temperature: 1/β.
        thermal_mass: μ; "auto" is the number of parameters.
        mass: M, diagonal: a number, a vector or a pytree shaped like the parameters; 1 unless given.
        window: over how many renewals the covariance is averaged.
        every: how many steps lie between two renewals at first; "auto" chooses by size. Later there are sixteen of the
            whole estimate each time the number of steps doubles.
        scheme: the splitting, a word of the letters B, E, O.
        covariance: "dense", "low_rank" or "diagonal"; "auto" is dense up to 512 parameters and low_rank beyond.
        rank: how many directions "low_rank" keeps.
    """
    splitting.moves(scheme, LETTERS)
    automatic = arguments.unless_auto(step_size, lambda h: h) is None
    checked = Thermostat.checked_thermostat(1.0 if automatic else step_size, temperature, mass, friction, thermal_mass)
    return ECCAdL(
        **checked | ({"step_size": None} if automatic else {}),
        window=arguments.positive("window", window),
        every=arguments.unless_auto(every, lambda steps: arguments.integer("every", steps, 1, MOST_EVERY)),
        scheme=scheme,
        covariance=arguments.unless_auto(covariance, lambda kind: arguments.choice("covariance", kind, ESTIMATES)),
        rank=arguments.integer("rank", rank, 1),
    )

"""eCCAdL: the covariance-controlled adaptive Langevin thermostat with an exact joint flow and a windowed covariance.

    dθ = M⁻¹p dt
    dp = F̃(θ) dt − (h/2)β Ŝ M⁻¹p dt − ξp dt + √(2A/β) M^(1/2) dW
    dξ = (p·M⁻¹p − d/β)/μ dt

is the equation of CCAdL and mCCAdL, and so is its invariant law. Three things differ. Drift and noise friction act
during the same h, so they are solved together, exactly: letter E, scheme BEOEB. Ŝ is an average over a window of recent
batches of its own, so that the friction does not follow the noise of the force it balances. And from Ŝ and the
curvature K̂, measured on the same batches, follow the noise friction with which a step of this size keeps a Gaussian as
it is (dynamics/pace.py) and the largest step size that is safe (docs/how-it-works/eccadl.md).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from isotherm.data.batches import ExtraBatch
from isotherm.dynamics import distance, flows
from isotherm.dynamics.covariance import Coordinates, Dense, Diagonal, Estimate, Local, Needs, inverse_root_mass
from isotherm.dynamics.low_rank import LowRank
from isotherm.dynamics.pace import CURVATURE_BOUND, IDENTITY_BOUND, Pace, Rules
from isotherm.dynamics.renewals import LONGEST_INTERVAL, Calendar, is_power_of_two
from isotherm.lib import arguments
from isotherm.lib.types import Array, Int, Number, RandomKey, Scalar, Setting, Vector
from isotherm.samplers.base import STATIC, Phase, State, Thermostat, Traits, normals
from isotherm.targets.noisy import Noisy

LETTERS = "BEO"
EXACT = "BEOEB"  # the scheme whose variance dynamics/pace.py knows for any A; of others it knows it for A = 0
ESTIMATES: dict[str, type[Estimate]] = {"dense": Dense, "low_rank": LowRank, "diagonal": Diagonal}
DENSE_UP_TO = 1024  # parameters; beyond, eigh takes longer than the steps between two renewals


class Memory(NamedTuple):
    """What is remembered of earlier batches: S and K in mass-whitened variables; by how much the chain is allowed to be
    wider than the posterior; M^(−1/2), if it is the sampler's own choice; and the pace until the next renewal."""

    estimate: Estimate
    inflation: Scalar
    scale: Vector | tuple[()]
    pace: Pace


class Moving(NamedTuple):
    """What E and O change: the way so far and the momentum, in the coordinates of the estimate, and βp² on average."""

    moved: Coordinates
    momentum: Coordinates
    energy: Scalar | float


@register_dataclass
@dataclass(frozen=True)
class ECCAdL(Thermostat):
    """The memory of its state is an estimate of S and K in mass-whitened variables (dynamics/covariance.py)."""

    window: Setting
    every: int | None = field(metadata=STATIC)
    scheme: str = field(metadata=STATIC)
    covariance: str | None = field(metadata=STATIC)
    rank: int = field(metadata=STATIC)

    def traits(self) -> Traits:
        """S is an average over the run, so it must be much the same all over the posterior."""
        return super().traits()._replace(chooses_step_size=True, assumes_constant_noise=True)

    def extra_batches(self, phase: Phase, parameters: int, batch_size: int) -> dict[str, ExtraBatch]:
        """Return the batch that S and K are measured on, where that of the force is too small, and the one whose force
        says how far the mode is: of as many rows, or few, so that memory for it does not grow with the parameters."""
        extra, rows = dict[str, ExtraBatch](), self._needs(parameters).rows
        if rows and phase != "step":
            extra["estimate"] = ExtraBatch(max(rows, batch_size))
        if phase == "renewal":
            extra["distance"] = ExtraBatch(max(rows, distance.FORCE_BATCHES * batch_size), distance.HOME_STEPS)
        return extra

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> State:
        if jnp.finfo(position.dtype).bits < 32:  # LAPACK has no such eigenvalues, and h²S would leave their range
            raise TypeError(
                f"init must have 32 or 64 bits for eccadl, got dtype {position.dtype}; convert it: .astype(np.float32)"
            )
        key, _, sketch_key = jax.random.split(key, 3)
        scale = self._own_scale(position, noisy)
        state = super().init(key, position, noisy)
        near = jnp.ones_like(state.friction)
        local = self._local(position, noisy, self._whitening(scale, position), near)
        if self.step_size is None and local.covariance.scale == 0 and local.curvature is None:
            raise ValueError(
                'step_size="auto" takes its measure from the noise of the gradients and from second derivatives; a '
                "batch of all the data, drawn without replacement, has no noise, and this posterior cannot be "
                "differentiated twice; give step_size a number"
            )
        estimate = self.estimate_of(position.size).first(local, position, self.rank, sketch_key)
        pace = self._pace(estimate, near, state.step, noisy)
        return self._paced(state, pace)._replace(memory=Memory(estimate, near, scale, pace), friction=pace.friction)

    def step(self, key: RandomKey, state: State, noisy: Noisy) -> State:
        (estimate, inflation, scale, pace), xi = state.memory, state.friction
        if callable(self.step_size):
            pace = self._pace(estimate, inflation, state.step, noisy)
            xi = xi + (pace.friction - state.memory.pace.friction)
        h, A, T = pace.step_size, pace.friction, self.temperature
        w, directions = self._whitening(scale, state.position), estimate.directions()
        moves = flows.moves(self.scheme, LETTERS)[1:]  # after the kick, which is the first
        kicked = flows.kick(state.momentum, w * noisy.force, h)
        noises = list(normals(key, sum(letter == "O" for letter, _ in moves), state.position))
        momentum, *noise = zip(*estimate.rotated(jnp.stack([kicked, *noises])), strict=True)

        def joint(s: Moving, t: Number) -> Moving:
            """E: drift and noise friction together, and the average of p·p along the way."""
            paths = [flows.joint(p, t / h * y) for p, y in zip(s.momentum, pace.noise_friction, strict=True)]
            moved = tuple(before + t * path.moved for before, path in zip(s.moved, paths, strict=True))
            energy = sum(each.sign * path.energy for each, path in zip(directions, paths, strict=True))
            return Moving(moved, tuple(path.momentum for path in paths), s.energy + t / h * energy)

        def ornstein_uhlenbeck(s: Moving, t: Number) -> Moving:
            rows = zip(s.momentum, noise.pop(0), strict=True)
            return s._replace(momentum=tuple(flows.ornstein_uhlenbeck(p, R, xi, A, T, t) for p, R in rows))

        start = Moving(tuple(jnp.zeros_like(p) for p in momentum), momentum, 0.0)
        end = flows.run(moves, {"E": joint, "O": ornstein_uhlenbeck}, start, h)
        moved, p = estimate.restored(tuple(map(jnp.stack, zip(end.moved, end.momentum, strict=True))))
        change = h / pace.thermal_mass * (end.energy - pace.energy)
        return self._paced(state, pace)._replace(
            position=flows.drift(state.position, moved, w, 1.0),
            momentum=p,
            friction=xi + jnp.where(distance.is_far(inflation), 0, change),
            kinetic_temperature=T * end.energy / pace.energy,
            step=state.step + 1,
            memory=state.memory._replace(pace=pace),
        )

    def renew(self, key: RandomKey, state: State, noisy: Noisy, step: Int[Array, ""]) -> State:
        """S and K of other rows enter the average, and the distance from the mode is measured anew. While the chain is
        on its way home, the past is forgotten, and ξ stays at A."""
        estimate, inflation, scale, before = state.memory
        calendar, is_far = self._calendar(state.position.size), distance.is_far(inflation)
        due, curvature_due = calendar.is_due(step), calendar.is_curvature_due(step)
        renewal_key = jax.random.split(key, 3)[1]  # of three, so that stored low-rank runs go on bit for bit
        local = self._local(state.position, noisy, self._whitening(scale, state.position), inflation)
        window = distance.averaging_window(self.window, inflation)
        estimate = estimate.forget(due & is_far).renewed(due, curvature_due, local, window, renewal_key)
        asked = distance.is_measured(step, due, inflation)
        # Vmapped, only the outer condition stays a branch, since it is the same for all chains.
        inflation = jax.lax.cond(
            step < distance.HOME_STEPS,
            lambda: jax.lax.cond(asked, lambda: self._inflation(state, estimate, noisy, step), lambda: inflation),
            lambda: jnp.ones_like(inflation),
        )
        pace = jax.lax.cond(due, lambda: self._pace(estimate, inflation, step, noisy), lambda: before)
        moved = state.friction + (pace.friction - before.friction)
        xi = jnp.where(is_power_of_two(step), pace.friction, moved)
        return state._replace(memory=Memory(estimate, inflation, scale, pace), friction=xi)

    @staticmethod
    def _paced(state: State, pace: Pace) -> State:
        """Return the state with the statistics of a pace."""
        A, mu = pace.friction, pace.thermal_mass
        return state._replace(step_size=pace.step_size, target_friction=A, thermal_mass=mu)

    def steps_to_renewal(self, step: Int[Array, ""], parameters: int) -> Int[Array, ""]:
        return self._calendar(parameters).steps_to_next(step)

    def estimate_of(self, parameters: int) -> type[Estimate]:
        return ESTIMATES[self.covariance or ("dense" if parameters <= DENSE_UP_TO else "low_rank")]

    def _needs(self, parameters: int) -> Needs:
        return self.estimate_of(parameters).needs(parameters, self.rank)

    def _calendar(self, parameters: int) -> Calendar:
        needs = self._needs(parameters)
        return Calendar(needs.interval if self.every is None else self.every, needs.parts)

    def _pace(self, estimate: Estimate, inflation: Scalar, step: Int[Array, ""], noisy: Noisy) -> Pace:
        rules = Rules(
            step_size=None if self.step_size is None else self.step_size_at(step, inflation.dtype),
            friction=self.friction,
            thermal_mass=self.thermal_mass,
            temperature=self.temperature,
            balances_friction=self.scheme == EXACT,
            bound=_curvature_bound(noisy),
            curvature_ratio=noisy.curvature_ratio,
        )
        return rules.pace(estimate, inflation, self._curvature_trust(step, noisy.force))

    def _curvature_trust(self, step: Int[Array, ""], like: Vector) -> Scalar:
        return distance.curvature_trust(step, self._needs(like.size).ramp_steps, like.dtype)

    def _own_scale(self, position: Vector, noisy: Noisy) -> Vector | tuple[()]:
        """Return M^(−1/2) if it is the sampler's choice: where the step size is, K is measured and no mass is given."""
        is_own = self.step_size is None and self.mass is None and not noisy.curvature_is_identity
        if not (is_own and self._needs(position.size).scales):
            return ()
        noisy = noisy.on("estimate", position)
        expected, K = noisy.curvature_ratio * noisy.covariance.diagonal(), noisy.curvature
        return inverse_root_mass(expected, None if K is None else jnp.diagonal(K.dense(position)))

    def _whitening(self, scale: Vector | tuple[()], position: Vector) -> Vector | Number:
        return self.inverse_root_mass(position) if isinstance(scale, tuple) else scale

    def _local(self, position: Vector, noisy: Noisy, w: Vector | Number, inflation: Scalar) -> Local:
        """S and K in mass-whitened variables."""
        if self._needs(position.size).rows:
            noisy = noisy.on("estimate", position)
        S, K = noisy.covariance.whitened(w), noisy.curvature
        noise_weight = _curvature_bound(noisy) / (2 * self.temperature * inflation)
        parameters_a_row = position.size * S.sampling_error**2 if noisy.sampling.share else 0.0
        return Local(S, K and K.whitened(w), noisy.curvature_ratio, noise_weight, parameters_a_row)

    def _inflation(self, state: State, estimate: Estimate, noisy: Noisy, step: Int[Array, ""]) -> Scalar:
        large = noisy.on("distance", state.position)
        force = self._whitening(state.memory.scale, state.position) * large.force
        settings = large.sampling, self.temperature, noisy.curvature_ratio, self._curvature_trust(step, force)
        return distance.measured_inflation(estimate, force, state.momentum, *settings)


def _curvature_bound(noisy: Noisy) -> float:
    return IDENTITY_BOUND if noisy.curvature_is_identity else CURVATURE_BOUND


def eccadl(
    step_size: Any = "auto",
    friction: float | str | None = "auto",
    *,
    temperature: float = 1.0,
    thermal_mass: float | str | None = "auto",
    mass: Any = None,
    window: float = 20.0,
    every: int | str | None = "auto",
    scheme: str = "BEOEB",
    covariance: str | None = "auto",
    rank: int = 32,
) -> ECCAdL:
    """Our own successor to mCCAdL: exact on Gaussian posteriors whose noise is the same everywhere, at any step size.

    Args:
        step_size: h, a number, a function of the step index, or "auto": the largest h at which (h²/2)βλ ≤ 2 for an
            eigenvalue λ from the middle of S, and h²K is at most a quarter of I + (h²/2)βS in every direction; far from
            the mode, for the noise over the inflation.
        friction: A, the effective friction; ξ starts there and has it as its mean. "auto" is 1; with "low_rank" it is
            more where the noise of the directions that are left out is large and differs from one to the other.
        temperature: 1/β.
        thermal_mass: μ; "auto" is the number of parameters, or 250h²/β where that is more, as on an anchored posterior.
        mass: M, diagonal: a number, a vector or a pytree shaped like the parameters. Unless given it is 1, or, where
            the step size is "auto", the covariance dense and the columns' scales very different, the diagonal of K at
            the start.
        window: over how many renewals the covariance is averaged.
        every: how many steps lie between two renewals at first; "auto" chooses by size. Later there are sixteen of the
            whole estimate each time the number of steps doubles.
        scheme: the splitting, a word of the letters B, E, O that begins with its only kick.
        covariance: "dense", "low_rank" or "diagonal"; "auto" is dense up to 1,024 parameters and low_rank beyond.
        rank: how many directions "low_rank" keeps.
    """
    if "B" in [letter for letter, _ in flows.moves(scheme, LETTERS)[1:]]:
        raise ValueError(f"scheme {scheme!r} kicks at two places; put its B's side by side or at the two ends")
    settings = Thermostat.checked_thermostat(step_size, temperature, mass, 1.0, thermal_mass)
    settings["friction"] = arguments.unless_auto("friction", friction, arguments.non_negative)
    return ECCAdL(
        **settings,
        window=arguments.positive("window", window),
        every=arguments.unless_auto("every", every, arguments.integer, 1, LONGEST_INTERVAL),
        scheme=scheme,
        covariance=arguments.unless_auto("covariance", covariance, arguments.choice, ESTIMATES),
        rank=arguments.integer("rank", rank, 1),
    )

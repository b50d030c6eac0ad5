"""eCCAdL: the covariance-controlled adaptive Langevin thermostat with an exact joint flow and a windowed covariance.

    dθ = M⁻¹p dt
    dp = F̃(θ) dt − (h/2)β Ŝ M⁻¹p dt − ξp dt + √(2A/β) M^(1/2) dW
    dξ = (p·M⁻¹p − d/β)/μ dt

is the equation of CCAdL and mCCAdL, and so is its invariant law. Three things differ. Drift and noise friction act
during the same h, so they are solved together, exactly: letter E, scheme BEOEB. Ŝ is an average over a window of recent
batches of its own, so that the friction does not follow the noise of the force it balances. And from Ŝ and the
curvature K̂, measured on the same batches, follow the noise friction with which a step of this size keeps a Gaussian as
it is (dynamics/noise_friction.py) and the largest step size that is safe (docs/how-it-works/eccadl.md).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from isotherm.dynamics import flows, noise_friction, splitting
from isotherm.dynamics.covariance import Coordinates, Dense, Diagonal, Directions, Estimate, Local, LowRank
from isotherm.lib import arguments
from isotherm.lib.types import Array, Bool, Int, Number, RandomKey, Scalar, Setting, Vector
from isotherm.samplers.base import STATIC, State, Thermostat, normals
from isotherm.targets.noisy import Noisy

LETTERS = "BEO"
EXACT = "BEOEB"  # the scheme whose variance dynamics/noise_friction.py knows for any A; of others it knows it for A = 0
ESTIMATES: dict[str, type[Estimate]] = {"dense": Dense, "low_rank": LowRank, "diagonal": Diagonal}
DENSE_UP_TO = 1024  # parameters; beyond, eigh takes longer than the steps between two renewals
ROWS = 5  # examples for each parameter, at least, from which "dense" estimates S and K
AUTO = 2.0  # (h²/2)βλ for an eigenvalue λ from the middle of S, at most, at step_size="auto"
BENT = 0.25  # the largest eigenvalue of h²K(I + (h²/2)βS)⁻¹, at most, at step_size="auto"
WHITENED = 1.0  # the same where K is known to be I: S then has its eigenvectors, and the friction is exact at any h
# r, at A = r times the noise friction of directions outside a low-rank estimate, where A is "auto" (`_unseen`):
HEAT = 0.1  # the error of variances there, root mean square, as long as that takes an r of at most
SLOW = 5.0
UNEVEN = 2.0  # r over the root of the relative spread of the noise there, at least, as long as r is at most
SLOWEST = 64.0
RESOLVED = 250.0  # μ over h²/β, at least, where μ is "auto"
KNOWN = 1e-3  # K's mean outside a low-rank estimate over its largest eigenvalue, at least, to measure distances by it
FAR = 4.0  # by how many standard errors a distance from the mode must be more than 1 to be believed
NEAR = 10.0  # a mean square distance from the mode that needs no help
FAR_WINDOW = 4.0  # renewals over which S is averaged on the way home, where it falls fast, by a low-rank estimate;
# by others two thirds are the newest
COOLING = 4.0  # the distance from the mode over the one that the chain is allowed to keep until the next renewal
RENEWALS = 16  # of the whole estimate while the number of steps doubles
EARLY = 512  # steps in which K is renewed as often as S; after that, at powers of two
SPREAD = 1e4  # of the diagonal of K, above which it becomes the mass; float32 has seven digits
LEAST = 1e-12  # a mass over the largest, at least
AT_HOME = 4096  # steps after which no chain is taken to be far from home
FORCE = 16  # batches from whose force a distance from the mode is measured
RAMP: dict[type[Estimate], int] = {Dense: 25, LowRank: 50, Diagonal: 100}  # steps in which what h may be doubles
MOST_EVERY = 2**30  # twice it is still a 32-bit step number


class Pace(NamedTuple):
    """What steps need of S and K, computed once for all of them until the next renewal: h, A, the noise friction y = hΓ
    along each of the estimate's directions, and p·p on average over a step in equilibrium."""

    step_size: Scalar
    friction: Scalar
    noise_friction: Coordinates
    energy: Scalar


class Memory(NamedTuple):
    """What is remembered of earlier batches: S and K in mass-whitened variables; how far the mode is, as a variance in
    units of the posterior's, 1 once the chain has come home; M^(−1/2), if it is the sampler's own choice; and what
    follows for the steps until the next renewal."""

    estimate: Estimate
    distance: Scalar
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
    """The memory of its state is an estimate of S and K in mass-whitened variables (dynamics/covariance)."""

    window: Setting
    every: int | None = field(metadata=STATIC)
    scheme: str = field(metadata=STATIC)
    covariance: str | None = field(metadata=STATIC)
    rank: int = field(metadata=STATIC)

    chooses_step_size = True
    assumes_constant_noise = True  # S is an average over the run, so it must be much the same all over the posterior

    def init(self, key: RandomKey, position: Vector, noisy: Noisy) -> State:
        if jnp.finfo(position.dtype).bits < 32:  # LAPACK has no such eigenvalues, and h²S would leave their range
            raise TypeError(
                f"init must have 32 or 64 bits for eccadl, got dtype {position.dtype}; convert it: .astype(np.float32)"
            )
        key, local_key, sketch_key = jax.random.split(key, 3)
        scale = self._scale(local_key, position, noisy) if self._rescales(position, noisy) else ()
        local = self._local(local_key, position, noisy, self._whitening(scale, position))
        if self.step_size is None and local.covariance.scale == 0 and local.curvature is None:
            raise ValueError(
                'step_size="auto" takes its measure from the noise of the gradients and from second derivatives; a '
                "batch of all the data, drawn without replacement, has no noise, and this posterior cannot be "
                "differentiated twice; give step_size a number"
            )
        estimate = ESTIMATES[self.kind(position.size)].first(local, position, self.rank, sketch_key)
        state = super().init(key, position, noisy)
        near = jnp.ones_like(state.friction)
        pace = self._pace(estimate, near, state.step, noisy)
        return state._replace(memory=Memory(estimate, near, scale, pace), friction=pace.friction)

    def step(self, key: RandomKey, state: State, noisy: Noisy) -> State:
        state = self._scheduled(state, noisy)
        estimate, distance, scale, (h, A, frictions, expected) = state.memory
        T, xi, mu = self.temperature, state.friction, self._thermal_mass(state.position, h)
        w, directions = self._whitening(scale, state.position), estimate.directions()
        moves = splitting.moves(self.scheme, LETTERS)[1:]  # after the kick, which is the first
        kicked = flows.kick(state.momentum, w * noisy.force, h)
        noises = list(normals(key, sum(letter == "O" for letter, _ in moves), state.position))
        momentum, *noise = zip(*estimate.rotated(jnp.stack([kicked, *noises])), strict=True)

        def joint(s: Moving, t: Number) -> Moving:
            """E: drift and noise friction together, and the average of p·p along the way."""
            paths = [flows.joint(p, t / h * y) for p, y in zip(s.momentum, frictions, strict=True)]
            moved = tuple(before + t * path.moved for before, path in zip(s.moved, paths, strict=True))
            energy = sum(each.sign * path.energy for each, path in zip(directions, paths, strict=True))
            return Moving(moved, tuple(path.momentum for path in paths), s.energy + t / h * energy)

        def ornstein_uhlenbeck(s: Moving, t: Number) -> Moving:
            fresh = noise.pop(0)
            flow = flows.ornstein_uhlenbeck
            return s._replace(momentum=tuple(flow(p, R, xi, A, T, t) for p, R in zip(s.momentum, fresh, strict=True)))

        start = Moving(tuple(jnp.zeros_like(p) for p in momentum), momentum, 0.0)
        end = splitting.run(moves, {"E": joint, "O": ornstein_uhlenbeck}, start, h)
        moved, p = estimate.restored(tuple(map(jnp.stack, zip(end.moved, end.momentum, strict=True))))
        return state._replace(
            position=flows.drift(state.position, moved, w, 1.0),
            momentum=p,
            friction=xi + jnp.where(distance > 1, 0, h / mu * (end.energy - expected)),
            kinetic_temperature=T * end.energy / expected,
            step=state.step + 1,
            step_size=h,
        )

    def renew(self, key: RandomKey, state: State, noisy: Noisy, step: Int[Array, ""]) -> State:
        """S and K of other rows enter the average, and the distance from the mode is measured anew. While the chain is
        on its way home, the past is forgotten, and ξ stays at A."""
        doubled, due = self._doubled(step), self.renewal_due(step, state.position.size)
        local_key, renewal_key, force_key = jax.random.split(key, 3)
        estimate, distance, scale, before = state.memory
        w, far = self._whitening(scale, state.position), distance > 1
        local = self._local(local_key, state.position, noisy, w, distance)
        window = jnp.where(far, jnp.minimum(FAR_WINDOW, self.window), self.window).astype(distance.dtype)
        if not isinstance(estimate, LowRank):  # which counts the renewals of its parts, each in its turn
            estimate = estimate._replace(
                renewals=jnp.where(due & far, jnp.minimum(estimate.renewals, 1), estimate.renewals)
            )
        estimate = estimate.renewed(due, doubled | (step < EARLY), local, window, renewal_key)
        asked = (step == 0) | (due & far & (step < AT_HOME))
        # Two conditions, of which the outer knows the step alone: where rows come from disk, it is known ahead.
        distance = jax.lax.cond(
            step < AT_HOME,
            lambda: jax.lax.cond(
                asked, lambda: self._distance(force_key, state, estimate, noisy, step), lambda: distance
            ),
            lambda: jnp.ones_like(distance),
        )
        pace = jax.lax.cond(due, lambda: self._pace(estimate, distance, step, noisy), lambda: before)
        xi = jnp.where(doubled, pace.friction, state.friction + (pace.friction - before.friction))
        return state._replace(memory=Memory(estimate, distance, scale, pace), friction=xi)

    def _scheduled(self, state: State, noisy: Noisy) -> State:
        """With the pace of this step, where the step size is a function of the step's number."""
        if not callable(self.step_size):
            return state
        memory = state.memory
        pace = self._pace(memory.estimate, memory.distance, state.step, noisy)
        xi = state.friction + (pace.friction - memory.pace.friction)
        return state._replace(memory=memory._replace(pace=pace), friction=xi)

    def _pace(self, estimate: Estimate, distance: Scalar, step: Int[Array, ""], noisy: Noisy) -> Pace:
        """On the way home less noise counts, and the friction is at least half of what damps best, so that the chain
        does not swing through the mode."""
        h, T = self._step_size(estimate, distance, step, _bent(noisy)), self.temperature
        A = self._friction(estimate, distance, h)
        loss = -jnp.expm1(-h * A) if self.scheme == EXACT else jnp.zeros_like(h)

        def friction(s: Directions) -> Array:
            y = noise_friction.balanced(h * h / (2 * T * distance) * s.noise, h * h * s.curvature, loss)
            damping = h * jnp.sqrt(jnp.maximum(s.curvature, noisy.curvature_ratio * s.noise))
            return jnp.where(distance > 1, jnp.maximum(y, damping), y)

        directions = estimate.directions()
        frictions = tuple(friction(s) for s in directions)
        energy = sum(
            s.total(noise_friction.kinetic_energy(y, loss)) for s, y in zip(directions, frictions, strict=True)
        )
        return Pace(h, A, frictions, jnp.asarray(T * energy, h.dtype))

    def _thermal_mass(self, position: Vector, h: Scalar) -> Setting:
        """μ; if it is "auto", d or so much that steps of size h resolve the thermostat: what they do not resolve of it
        leaves the variance right and makes the tails heavy, with a kurtosis of 3 + 2.5h²/(βμ) for any d."""
        if self.thermal_mass is not None:
            return self.thermal_mass
        return jnp.maximum(position.size, RESOLVED * h * h * self.temperature)

    def _rescales(self, position: Vector, noisy: Noisy) -> bool:
        """Whether M is the sampler's own choice: where the step size is and no mass is given, and K is measured."""
        own = self.step_size is None and self.mass is None and self.kind(position.size) == "dense"
        return own and not noisy.curvature_is_identity

    def _scale(self, key: RandomKey, position: Vector, noisy: Noisy) -> Vector:
        """M^(−1/2): 1, or, where the columns are of so different scales that float32 would not do, with M the diagonal
        of K, or of what K would be in a right model if that is more."""
        noisy = noisy.fresh(key, position, ROWS * position.size)
        M = noisy.curvature_ratio * noisy.covariance.diagonal()
        if noisy.curvature is not None:
            measured = jnp.diagonal(noisy.curvature.dense(position))
            M = jnp.where(jnp.isfinite(measured), jnp.maximum(M, measured), M)
        M = jnp.maximum(M, LEAST * M.max())
        return jnp.where(M.max() > SPREAD * M.min(), jax.lax.rsqrt(_positive(M)), 1)

    def _whitening(self, scale: Vector | tuple[()], position: Vector) -> Vector | Number:
        return self.inverse_root_mass(position) if isinstance(scale, tuple) else scale

    def _local(
        self, key: RandomKey, position: Vector, noisy: Noisy, w: Vector | Number, distance: Scalar | float = 1.0
    ) -> Local:
        """S and K in mass-whitened variables; for "dense" from ROWS examples a parameter or more: from few, the
        eigenvalues of S would be spread by (1 ± √(d/n))², and the friction too small on average."""
        if self.kind(position.size) == "dense":
            noisy = noisy.fresh(key, position, ROWS * position.size)
        S, K, share = noisy.covariance.whitened(w), noisy.curvature, _bent(noisy) / (2 * self.temperature * distance)
        parameters_a_row = position.size * S.sampling_error**2 if noisy.sampling.share else 0.0
        return Local(S, K and K.whitened(w), noisy.curvature_ratio, share, parameters_a_row)

    def _distance(self, key: RandomKey, state: State, estimate: Estimate, noisy: Noisy, step: Int[Array, ""]) -> Scalar:
        """F·K⁻¹F/d, less what the noise of F adds to it, and p·p/d: the mean square distance to the mode in standard
        deviations, and that to which the momentum leads, over COOLING. 1 where it is not more than chance could make
        it. Far away K may be far too small (a logistic regression whose labels are all wrong has none), so at first the
        curvature of a right model counts if it is larger."""
        position, d = state.position, state.position.size
        few = FORCE * noisy.sampling.size  # rows; their evaluation must not need memory that grows with the parameters
        large = noisy.fresh(key, position, max(ROWS * d, few) if isinstance(estimate, Dense) else few)
        force = self._whitening(state.memory.scale, position) * large.force
        found = careful = state.momentum @ state.momentum / self.temperature - d
        chance, least = jnp.zeros_like(found), _positive(1e-6 * estimate.strongest)
        for s, f in zip(estimate.directions(), estimate.rotated(force[None]), strict=True):
            K = jnp.maximum(s.curvature, least)
            noise = s.noise * large.sampling.share / (self.temperature * K)
            square = f[0] ** 2 / self.temperature
            found += s.sign * jnp.sum(square / K) - s.total(noise)
            careful += s.sign * jnp.sum(square / jnp.maximum(K, noisy.curvature_ratio * s.noise))
            chance += s.total((1 + noise) ** 2)
        far = found / d > jnp.maximum(1 + FAR * jnp.sqrt(2 * chance) / d, NEAR)
        if isinstance(estimate, LowRank):  # whose mean curvature says nothing where few directions have most of it
            far &= estimate.rest_curvature > KNOWN * estimate.strongest
        allowed = jnp.minimum(found / COOLING, careful * self._grown(step, estimate)) / d
        return jnp.where(far, jnp.clip(allowed, 1, large.sampling.population), 1).astype(position.dtype)

    @staticmethod
    def _grown(step: Int[Array, ""], estimate: Estimate) -> Scalar:
        """By how much more than at the first step K is trusted: it doubles every RAMP steps."""
        return jnp.exp2(step.astype(estimate.renewals.dtype) / RAMP[type(estimate)])

    @staticmethod
    def _doubled(step: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether this is a power of two, or 0."""
        return step & (step - 1) == 0

    def renewal_due(self, step: Int[Array, ""], parameters: int) -> Bool[Array, ""]:
        """Before steps whose number is a power of two or a multiple of the interval."""
        return self._doubled(step) | (step % self._interval(step, parameters) == 0)

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

    def _step_size(self, estimate: Estimate, distance: Scalar, step: Int[Array, ""], bent: float) -> Scalar:
        """h; at first no more than the curvature allows without any friction, and then twice that every RAMP steps, so
        that Ŝ follows a start far from the mode before h relies on it."""
        auto = self.step_size is None
        h = self._auto(estimate, distance, bent) if auto else self.step_size_at(step, distance.dtype)
        return jnp.minimum(h, self._grown(step, estimate) * _largest_step(estimate.ceiling, bent))

    def _auto(self, estimate: Estimate, distance: Scalar, bent: float) -> Scalar:
        """(h²/2)βλ = AUTO in the middle of the spectrum; less where h²K would not be small beside 1 + (h²/2)βS, or
        where the friction could not outweigh the noise of directions that a low-rank estimate leaves out."""
        mean, ratio = self._unseen(estimate)
        outside = 1 / _positive(ratio)  # A cools what is left out only where a step is no longer than 1/A
        h = jnp.sqrt(2 * jnp.minimum(AUTO, outside) * self.temperature * distance / _positive(estimate.middle()))
        h = jnp.minimum(h, _largest_step(estimate.stiffness, bent))
        if self.friction is None:
            return h
        outweighed = 2 * self.friction * self.temperature / _positive(ratio * mean)
        return jnp.where(self.friction > 0, jnp.minimum(h, outweighed), h)

    def _friction(self, estimate: Estimate, distance: Scalar, h: Scalar) -> Scalar:
        """A; if it is "auto", 1 or so much that it outweighs the noise of directions that a low-rank estimate leaves
        out: all get the noise friction of their mean, and in those with more noise than that A is what cools."""
        if self.friction is not None:
            return jnp.asarray(self.friction, h.dtype)
        mean, ratio = self._unseen(estimate)
        return jnp.maximum(1, ratio * h / (2 * self.temperature * distance) * mean)

    @staticmethod
    def _unseen(estimate: Estimate) -> tuple[Scalar, Scalar]:
        """The mean noise of the directions that an estimate leaves out, and r, how many times its noise friction A
        should be. With s the standard deviation of that noise over its mean, variances there are off by s/(1 + r), root
        mean square, and a chain is 1 + r times as slow."""
        mean, spread = estimate.unseen()
        return mean, jnp.maximum(jnp.minimum(spread / HEAT, SLOW), jnp.minimum(UNEVEN * jnp.sqrt(spread), SLOWEST))


def _bit_length(step: Int[Array, ""]) -> Int[Array, ""]:
    """As Python's int.bit_length, of a step's number: a 32-bit integer (run/plan.py) whether or not JAX has 64 bits."""
    return 32 - jax.lax.clz(step.astype(jnp.int32))


def _bent(noisy: Noisy) -> float:
    return WHITENED if noisy.curvature_is_identity else BENT


def _largest_step(curvature: Scalar, bent: float) -> Scalar:
    """The h with h²K = bent."""
    return jnp.sqrt(bent / _positive(curvature))


def _positive(value: Scalar) -> Scalar:
    """With room for a division of numbers of ordinary size by it."""
    return jnp.maximum(value, jnp.finfo(value.dtype).tiny * 1e6)


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
            eigenvalue λ from the middle of S, and h²K is at most a quarter of I + (h²/2)βS in every direction.
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
    if "B" in [letter for letter, _ in splitting.moves(scheme, LETTERS)[1:]]:
        raise ValueError(f"scheme {scheme!r} kicks at two places; put its B's side by side or at the two ends")
    settings = Thermostat.checked_thermostat(1.0, temperature, mass, 1.0, thermal_mass)
    settings["step_size"] = arguments.unless_auto(step_size, arguments.step_size)
    settings["friction"] = arguments.unless_auto(friction, lambda A: arguments.non_negative("friction", A))
    return ECCAdL(
        **settings,
        window=arguments.positive("window", window),
        every=arguments.unless_auto(every, lambda steps: arguments.integer("every", steps, 1, MOST_EVERY)),
        scheme=scheme,
        covariance=arguments.unless_auto(covariance, lambda kind: arguments.choice("covariance", kind, ESTIMATES)),
        rank=arguments.integer("rank", rank, 1),
    )

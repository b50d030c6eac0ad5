"""`isotherm.largest_step`: the largest step size of a sampler whose bias is under a bound, without a reference.

The bias of a step size is measured on the second half of a run by the forces at its draws (diagnostics/stein.py): how
far the mean is off, in posterior standard deviations, and the variance over the true one. All runs start at the same
draws of the Gaussian that approximates the posterior. Each goes on, twice as long each time, until its chains have
forgotten where they started and the bias is on one side of the bound, or so near that it does not matter on which.
"""

import dataclasses
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.diagnostics.stein import Bias, memory_of, stein_bias
from isotherm.lib import arguments
from isotherm.lib.progress import Passes, StatusLine
from isotherm.lib.types import Batch, Draws, Json, Params
from isotherm.posterior import Posterior
from isotherm.run.assemble import Run, RunSettings, assemble
from isotherm.run.chains import Chains
from isotherm.run.execute import make_chains, one_lapack_thread
from isotherm.run.plan import Plan
from isotherm.samplers import eccadl
from isotherm.samplers.base import Sampler
from isotherm.samplers.settings import traits_of
from isotherm.targets.anchor import anchor
from isotherm.targets.checks import check_starts
from isotherm.targets.forces import Forces, spread_of
from isotherm.targets.newton import CannotAnchor
from isotherm.targets.noisy import DENSE_PARAMETERS
from isotherm.targets.target import Anchored

BOUND = 0.1  # standard deviations by which the mean may be off, and by how much the variance, relatively
CHAINS = 16  # of each run: independent, so that they give the errors however correlated a chain's draws are
DRAWS = (32, 128)  # of each chain, at which forces are computed at each look: at least and at most,
NUMBERS = 2**12  # and within these bounds so many that draws times parameters are about this
FIRST_LOOK = 256  # steps
TRIAL_STEPS = 2**15  # of one run
FORGOTTEN = 0.25  # the variance of chains' means over that of draws, at most: a chain is then worth four draws or more
SURE = 2.0  # standard errors between the bias and the bound,
TIGHT = 0.2  # or its error over the bound, at most: as bias grows with h, or faster, h is then known well enough
DRIFT = 0.05  # of the friction between the halves of what is looked at, relatively, above which it still adapts,
DRIFT_ERRORS = 4.0  # if that is also more than so many standard errors: nothing is then known of the step size
GROSS = 1.0  # a bias so large that no memory of the start explains it
PRECISION = 1.2  # the search ends when the smallest step that fails is at most so many times the largest that passes
TRIALS = 40
PILOT = 2_048  # steps that look for the posterior where it cannot be anchored
TITLE = "looking for the largest step"  # of the line that shows progress
PIECES = 8  # of a look, between which the host may be interrupted


class Trial(NamedTuple):
    """A step size; its bias, if its chains stayed finite; the number of steps; and whether it passes."""

    step_size: float
    bias: Bias | None
    steps: int
    passes: bool

    @property
    def is_slow(self) -> bool:
        """Whether its chains still remember where they started, after all the steps that they may have."""
        return self.bias is not None and self.bias.memory > FORGOTTEN and self.steps >= TRIAL_STEPS

    def __str__(self) -> str:
        if self.bias is None:
            return f"at {self.step_size:.3g} chains diverged"
        b = self.bias
        return (
            f"at {self.step_size:.3g} the mean is off by {b.distance:.2f} standard deviations and the variance is "
            f"{b.trace:.2f} ± {b.trace_error:.2f} times what it should be"
        )


class Found(NamedTuple):
    """The largest step size that passes, and all that were tried."""

    largest: Trial
    trials: tuple[Trial, ...]

    def notes(self, bound: float) -> Json:
        """For the attributes of results."""
        assert self.largest.bias is not None
        return {
            "step_size_found": f"isotherm.largest_step, bias at most {bound:g}",
            "step_size_shift": self.largest.bias.distance,
            "step_size_variance": self.largest.bias.trace,
        }


def largest_step(
    posterior: Posterior,
    sampler: Sampler[Any],
    data: Batch | None = None,
    init: Params | None = None,
    batch_size: int | None = None,
    *,
    bound: float = BOUND,
    seed: int = 0,
    replace: bool = True,
    progress: bool = True,
) -> float:
    """Find the largest step size with which `sampler` is right, up to a bound, by short runs.

    It needs no reference: the bias of a run follows from the gradients of the log posterior at its draws, as in
    `isotherm.check`. It anchors the posterior (`isotherm.anchor`), to know where to start and how wide it is, or makes
    a run of `isotherm.eccadl` where that cannot be; then it tries step sizes, to a factor of 1.2.

    Args:
        posterior: the model, or what `isotherm.anchor` made of it.
        sampler: any, with a field `step_size`, whose value does not matter.
        data: a pytree of arrays with one leading length N.
        init: the parameters to start from; an anchored posterior needs none.
        batch_size: n, that of the run which is to come; an anchored posterior has one of its own.
        bound: how far the mean may be off, in posterior standard deviations, as a root mean square over directions, and
            by how much the variance may be, relatively, on average over them.
        seed: same seed, same step size.
        replace: as in `isotherm.sample`.
        progress: whether to show a line (on a terminal only).

    Returns:
        The step size. ValueError, with what was found, if none passes.
    """
    bound = arguments.positive("bound", bound)
    run = assemble(posterior, sampler, data, init, RunSettings(batch_size, replace, chains=1, seed=seed))
    if "step_size" not in {field.name for field in dataclasses.fields(run.sampler)}:  # type: ignore[arg-type]
        raise TypeError(f"sampler must have a field step_size, got {type(sampler).__name__} without one")
    return find(run, bound, progress).largest.step_size


def find(run: Run, bound: float, progress: bool) -> Found:
    """Find the largest step size of the run's sampler on its posterior and data; its own step size does not matter."""
    if run.starts.shape[1] > DENSE_PARAMETERS:
        raise ValueError(
            f"the model has {run.starts.shape[1]:,} parameters, and finding a step size needs d×d matrices, for up to "
            f"{DENSE_PARAMETERS:,}; give step_size a number, or use isotherm.eccadl"
        )
    rng = np.random.default_rng([run.seed, FIRST_LOOK])
    near, forces, size = surroundings(run, rng, progress)
    with StatusLine(TITLE, progress) as status, one_lapack_thread():
        return search(Trials(near, forces, size, bound, status.say), first_step(near, forces), bound)


def surroundings(run: Run, rng: np.random.Generator, progress: bool) -> tuple[Run, Forces, int]:
    """Return the run with CHAINS starts at typical draws, the forces near them, and the rows that each needs."""
    evaluation, population = run.evaluation, run.batches.population
    posterior, params = evaluation.target, evaluation.target.params(jnp.asarray(run.starts[0]))
    try:
        anchored = posterior
        if not isinstance(anchored, Anchored):
            anchored = anchor(posterior, run.data, params, seed=run.seed, progress=progress)
    except CannotAnchor as reason:
        if reason.is_fault:
            raise
        return pilot_surroundings(run, rng, progress)
    if not isinstance(anchored, Anchored):  # with effects
        return pilot_surroundings(run, rng, progress)
    forces = Forces(anchored, run.data, rng, Passes(population, show=False))
    flat = anchored.coordinates.flat_on_host(rng.standard_normal((CHAINS, len(anchored.gradient))))
    return starting_at(run, flat), forces, anchored.chosen_batch_size


def pilot_surroundings(run: Run, rng: np.random.Generator, progress: bool) -> tuple[Run, Forces, int]:
    """Return the same where the posterior cannot be anchored: what a run of eccadl finds from the user's start."""
    target, params = run.evaluation.target, run.evaluation.target.params(jnp.asarray(run.starts[0]))
    pilot = run._replace(sampler=eccadl(), starts=np.repeat(run.starts[:1], CHAINS, axis=0))
    plan = Plan(PILOT, PILOT // 2, PILOT // 2 // DRAWS[0])
    with StatusLine(TITLE, progress) as status, closing(make_chains(pilot)) as chains, one_lapack_thread():
        check_starts(pilot.evaluation, pilot.starts, pilot.data)
        status.say("a first run")
        seen = advance_in_pieces(chains, plan, 0)
    if seen is None:
        raise ValueError(
            "no step size can be found: the posterior cannot be anchored, and chains of isotherm.eccadl diverge from "
            "this start; start nearer to the mode"
        )
    draws = seen["position"]
    with Passes(run.batches.population, progress) as passes:
        forces = Forces.around(draws.mean(axis=(0, 1)), spread_of(draws), target.plain, params, run.data, rng, passes)
        size = forces.quiet_size(forces.positions(draws))
    forces.passes = Passes(run.batches.population, show=False)
    return starting_at(run, draws[:, -1]), forces, size


def starting_at(run: Run, flat: np.ndarray) -> Run:
    positions = [np.asarray(run.evaluation.target.position(each)) for each in flat.astype(run.starts.dtype)]
    return run._replace(starts=np.stack(positions))


def advance_in_pieces(chains: Chains, plan: Plan, step: int) -> Draws | None:
    """Return positions and statistics of a plan, by (chain, draw, …), from `step` on; None if a chain diverged."""
    parts = []
    while step < plan.steps:
        end = min(plan.steps, step + -(-plan.steps // PIECES))
        parts.append(chains.advance(plan, step, end))
        step = end
        if (chains.first_bad_steps >= 0).any():
            return None
    return {name: np.concatenate([part[name] for part in parts]).swapaxes(0, 1) for name in parts[0]}


def is_drifting(friction: np.ndarray) -> bool:
    """Return whether a friction, by (chain, draw), still adapts: the noise that it is to take out is not taken out."""
    early, late = np.array_split(friction, 2, axis=1)
    change = late.mean(axis=1) - early.mean(axis=1)
    drift, error = abs(change.mean()), change.std(ddof=1) / len(change) ** 0.5
    return bool(drift > DRIFT * abs(late.mean()) and drift > DRIFT_ERRORS * error)


def first_step(run: Run, forces: Forces) -> float:
    """One over the highest frequency (without momentum, its square): half of what is stable without any noise."""
    position, traits = run.starts[0], traits_of(run.sampler)
    mass = 1.0 if traits.mass is None else traits.mass
    w = jax.lax.rsqrt(jnp.asarray(mass, position.dtype))
    factor = np.eye(len(position)) if run.evaluation.target.curvature_is_identity else forces.factor
    scale = np.broadcast_to(np.asarray(w, np.float64), position.shape)
    narrowest = float(np.linalg.svd(factor / scale[:, None])[1][-1])
    return narrowest if traits.has_momentum else narrowest**2


class Trials:
    """Runs at one step size after another, compiled once."""

    def __init__(self, run: Run, forces: Forces, size: int, bound: float, show: Callable[[str], object]) -> None:
        self.run, self.forces, self.size, self.bound, self.show = run, forces, size, bound, show
        self.draws = draws_of(len(forces.factor))
        self.root_temperature = float(traits_of(run.sampler).temperature) ** 0.5
        self.like: Chains | None = None

    def __call__(self, step_size: float) -> Trial:
        sampler = dataclasses.replace(self.run.sampler, step_size=step_size)  # type: ignore[type-var]
        with closing(make_chains(self.run._replace(sampler=sampler), like=self.like)) as chains:
            if self.like is None:
                check_starts(self.run.evaluation, self.run.starts, self.run.data)
                self.like = chains
            return self.judge(chains, step_size)

    def judge(self, chains: Chains, step_size: float) -> Trial:
        """Look at a run after FIRST_LOOK steps, twice as many, and so on, until it can be told whether it passes."""
        step, end = 0, FIRST_LOOK
        while True:
            self.show(f"step size {step_size:.3g}, {end:,} steps")
            seen = advance_in_pieces(chains, Plan(end, end // 2, end // 2 // self.draws), step)
            if seen is None:
                return Trial(step_size, None, end, False)
            z, last = self.positions(seen["position"]), end >= TRIAL_STEPS
            adapts = "target_friction" in seen and is_drifting(seen["friction"])
            tells = not adapts and (memory_of(z) <= FORGOTTEN or np.mean(z**2) > 1 + GROSS)  # else forces tell nothing
            if last or tells:
                found = self.bias(z)
                forgotten, gross = found.memory <= FORGOTTEN, max(excesses(found, GROSS)) > SURE
                if gross or last or (forgotten and is_decided(found, self.bound)):
                    passes = forgotten and max(excesses(found, self.bound)) <= 0 and not gross
                    return Trial(step_size, found, end, passes)
            step, end = end, 2 * end

    def positions(self, draws: np.ndarray) -> np.ndarray:
        """Positions in standard deviations, which at temperature T are √T times as large, and forces 1/T as large."""
        return np.asarray(self.forces.positions(draws) / self.root_temperature)

    def bias(self, z: np.ndarray) -> Bias:
        return stein_bias(z, self.forces.at(z * self.root_temperature, self.size) / self.root_temperature)


def draws_of(parameters: int) -> int:
    """How many draws of each chain a look takes: a power of 2."""
    return int(np.clip(2 ** round(np.log2(NUMBERS / parameters)), *DRAWS))


def is_decided(found: Bias, bound: float) -> bool:
    """Whether one of the two is surely beyond the bound, or each is surely within or known well enough."""
    over = excesses(found, bound)
    well = found.square_error <= TIGHT * bound**2, found.trace_error <= TIGHT * bound
    return max(over) > SURE or all(each < -SURE or known for each, known in zip(over, well, strict=True))


def excesses(found: Bias, bound: float) -> list[float]:
    """By how many standard errors the mean and the variance are beyond the bound."""
    least = np.finfo(np.float64).tiny
    mean = (found.square - bound**2) / max(found.square_error, least)
    variance = (abs(found.trace - 1) - bound) / max(found.trace_error, least)
    return [float(np.nan_to_num(each, nan=np.inf)) for each in (mean, variance)]


def search(trial: Callable[[float], Trial], first: float, bound: float) -> Found:
    """From `first`, down by halves until a step passes, or up until one does not; then by bisection."""
    trials: list[Trial] = []
    low, high, h = None, None, first
    for _ in range(TRIALS):
        trials.append(trial(h))
        if trials[-1].passes:
            low = trials[-1]
        else:
            high = h
            if low is None and trials[-1].is_slow:
                break  # a smaller step would be slower still
        if low is not None and high is not None and high <= PRECISION * low.step_size:
            break
        h = h / 2 if low is None else 2 * h if high is None else float(np.sqrt(high * low.step_size))
    if low is None:
        raise ValueError(no_step(trials, bound))
    return Found(low, tuple(trials))


def no_step(trials: list[Trial], bound: float) -> str:
    last, why = trials[-1], "; ".join(map(str, trials[-2:]))
    if last.is_slow:
        why += f"; there, chains still remember their start after {last.steps:,} steps, and smaller steps are slower"
    return (
        f"no step size keeps the bias under {bound:g}: {why}; use isotherm.fit or isotherm.eccadl, larger "
        "batches, or a larger bound"
    )

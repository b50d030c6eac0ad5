"""The driver: chains, burn-in, thinning, progress, divergence, recording, resuming.

Time is spent in one compiled loop a chunk; between chunks the host draws the progress bar, hands draws and state to a
recorder and looks for divergence. Where the chunks end changes nothing (`loop.py`), so it can go by the clock.
"""

import os
import time
import warnings
from contextlib import closing
from typing import Any

import jax
import numpy as np

from isotherm import arguments, results
from isotherm import store as stores
from isotherm.batches import Batches
from isotherm.lanes import Lanes
from isotherm.loop import Carry, Plan
from isotherm.posterior import Posterior
from isotherm.problem import problem
from isotherm.progress import Bar, Stop, interruptible
from isotherm.samplers import Sampler
from isotherm.store import Draws, Folder, Parts, Recorder
from isotherm.types import Batch, Params

CHUNK_SECONDS = 0.25  # how often the host looks in
MOST_STEPS = 2**31 - 1  # steps are counted in 32 bits


def sample(
    posterior: Posterior,
    sampler: Sampler,
    data: Batch,
    init: Params,
    *,
    batch_size: int,
    steps: int | None = None,
    passes: float | None = None,
    burn_in: float = 0.2,
    thin: int = 10,
    chains: int = 4,
    seed: int = 0,
    replace: bool = True,
    store: str | os.PathLike[str] | None = None,
    name: str | None = None,
    progress: bool = True,
) -> Any:
    """Draw from `posterior` given `data` with `sampler`.

    Args:
        posterior: the model.
        sampler: `isotherm.mccadl(...)` or another.
        data: a pytree of arrays with one leading length N.
        init: the parameters to start from, or a function of a random key that draws them, one start a chain.
        batch_size: n, the number of examples a step looks at.
        steps: how many steps each chain makes; or
        passes: how many times N/n steps.
        burn_in: the fraction of the steps, from the first, that is not kept.
        thin: every how many steps a draw is kept.
        chains: how many independent chains.
        seed: same seed, same draws.
        replace: whether a batch may hold an example twice. `batch_size=N, replace=False` is the exact gradient.
        store: a folder to be made, such as "run.zarr", where draws and state are written as the run goes. The run
            then holds little in memory, can be looked at with `xarray.open_datatree` while it goes, and, however it
            ends, `isotherm.resume` goes on with it. SIGTERM and SIGHUP end it in good order, with status 143 and 129.
        name: what the run is called, for its attributes.
        progress: whether to show a bar (on a terminal only).

    Returns:
        An `xarray.DataTree` in ArviZ's schema: `posterior` and `sample_stats` by (chain, draw), `posterior_mean` and
        `posterior_variance` over all steps after burn-in, and attributes saying how it was made. Ctrl-C returns what
        there is so far, with the attribute `interrupted` set. With a store, it is read from there when looked at.
    """
    check_sampler(sampler)
    chains = arguments.integer("chains", chains, 1, 2**16)
    seed = arguments.integer("seed", seed, 0, 2**32 - 1)
    what = problem(posterior, data, init, chains, seed)
    batches = Batches(what.population, batch_size, bool(replace))
    plan = make_plan(steps, passes, burn_in, thin, batches)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    parts = Parts(sampler, what, batches, chains, seed, name)
    if store is None:
        with closing(Lanes(parts)) as lanes:
            return finished(lanes, plan, 0, 0.0, results.Memory(label(parts, plan), lanes.missing()), progress)
    with closing(Folder(store, new=True)) as folder, closing(Lanes(parts)) as lanes:
        header, arrays = stores.described(parts, plan._asdict())
        header["chunk"] = stores.chunk_of(what.starts)
        with closing(Recorder(folder, label(parts, plan), header, arrays, lanes.missing())) as recorder:
            recorder.checkpoint(lanes, 0, 0.0)
            return finished(lanes, plan, 0, 0.0, recorder, progress)


def resume(
    store: str | os.PathLike[str],
    posterior: Posterior,
    data: Batch,
    *,
    steps: int | None = None,
    sampler: Sampler | None = None,
    init: Params | None = None,
    progress: bool = True,
) -> Any:
    """Go on with a stored run exactly where it stopped: its draws are those of a run that was never interrupted.

    Args:
        store: the folder given to `isotherm.sample`.
        posterior, data: those of the run; others are refused.
        steps: how many steps to add to the run's own, to extend it; none unless given.
        sampler: that of the run, if it holds a function (a schedule) or is not one of isotherm's.
        init: parameters like those of the run, if they are not a nest of dicts, lists and tuples.
        progress: whether to show a bar (on a terminal only).

    Returns:
        What `isotherm.sample` would have returned.
    """
    if sampler is not None:
        check_sampler(sampler)
    more = 0 if steps is None else arguments.integer("steps", steps, 1)
    with closing(Folder(store, new=False)) as folder:
        saved = folder.latest()
        parts = stores.rebuilt(saved, posterior, data, sampler, init)
        plan = Plan(**saved.header["plan"])
        plan = plan._replace(steps=arguments.integer("steps", plan.steps + more, 1, MOST_STEPS))
        header, arrays = stores.again(saved, plan._asdict())
        with closing(Lanes(parts, saved)) as lanes:
            tail = stores.filled(lanes.missing(header["draws"] % header["chunk"]), saved, "tail.")
            tail = jax.tree.map(np.asarray, tail)
            with closing(Recorder(folder, label(parts, plan), header, arrays, tail, saved)) as recorder:
                return finished(lanes, plan, header["step"], header["seconds"], recorder, progress)


def check_sampler(sampler: Any) -> None:
    if isinstance(sampler, type) or not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a sampler such as isotherm.mccadl(step_size=1e-3), got {sampler!r}")


def finished(lanes: Lanes, plan: Plan, step: int, seconds: float, recorder: Any, progress: bool) -> Any:
    """Run from `step` to the end, or to where it is stopped; what the recorder makes of it."""
    with interruptible(isinstance(recorder, Recorder)) as stop, Bar(plan.steps, progress, step) as bar:
        clock = Clock(seconds)
        with one_lapack_thread():
            step = run(lanes, plan, step, recorder, stop, bar, clock)
        found = recorder.finish(lanes, step, clock())
    stop.obey()
    warn_divergence(lanes.first_bad_steps, lanes.parts.sampler)
    return found


def one_lapack_thread() -> Any:
    """LAPACK's decompositions are small here: more threads give them nothing and, where the machine is busy, wait for
    each other so long that a step of eCCAdL on MNIST 7/9 took ten times its time."""
    import scipy.linalg  # noqa: F401  # what JAX takes LAPACK from, which has to be there to be limited
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


class Clock:
    """Seconds that a run has taken, over all its processes."""

    def __init__(self, before: float) -> None:
        self.zero = time.perf_counter() - before

    def __call__(self) -> float:
        return time.perf_counter() - self.zero


def label(parts: Parts, plan: Plan) -> Any:
    """What turns draws into labelled results with attributes that say how they were made."""
    fixed = {
        "sampler": type(parts.sampler).__name__.lower(),
        **results.settings("sampler", parts.sampler),
        "batch_size": parts.batches.size,
        "population": parts.batches.population,
        "replace": int(parts.batches.replace),
        **plan._asdict(),
        "chains": parts.chains,
        "seed": parts.seed,
        **({} if parts.name is None else {"name": parts.name}),
    }

    def labelled(draws: Draws, first: int, carry: Carry, step: int, seconds: float) -> Any:
        first_bad = np.asarray(carry.first_bad_step)
        interrupted = int(step < plan.steps and (first_bad < 0).any())
        attributes = {**fixed, "steps_done": step, "interrupted": interrupted, "sampling_time": seconds}
        moments = carry.moments
        if step <= plan.burn_in:  # of no steps yet
            moments = jax.tree.map(lambda values: np.full_like(values, np.nan), moments)
        return results.tree(draws, first, plan, moments, first_bad, parts.what.unravel, attributes)

    return labelled


def make_plan(steps: int | None, passes: float | None, burn_in: float, thin: int, batches: Batches) -> Plan:
    if (steps is None) == (passes is None):
        raise ValueError(f"give one of steps and passes, got steps={steps!r} and passes={passes!r}")
    if passes is not None:
        steps = max(1, round(arguments.positive("passes", passes) * batches.population / batches.size))
    steps = arguments.integer("steps", steps, 1, MOST_STEPS)
    thin = arguments.integer("thin", thin, 1)
    if not 0 <= arguments.number("burn_in", burn_in) < 1:
        raise ValueError(f"burn_in must be a fraction of the steps, at least 0 and less than 1, got {burn_in!r}")
    plan = Plan(steps, int(burn_in * steps), thin)
    if not plan.draws:
        raise ValueError(
            f"thin={thin} keeps no draw of the {steps - plan.burn_in} steps after burn-in; lower thin or raise steps"
        )
    return plan


def run(lanes: Lanes, plan: Plan, step: int, recorder: Any, stop: Stop, bar: Bar, clock: Clock) -> int:
    """Chunk after chunk, until the plan is done, a signal, or no chain is left; the step that was reached."""
    length, began = 4, time.perf_counter()
    while step < plan.steps and not stop.is_set() and (lanes.first_bad_steps < 0).any():
        # The draw in progress at `step` and slots − 1 more: what the record has room for.
        room = plan.burn_in + (plan.completed(step) + lanes.slots) * plan.thin
        end = min(step + length, plan.steps, room)
        draws = lanes.advance(plan, step, end)
        first_bad = lanes.first_bad_steps
        reached = end if (first_bad < 0).any() else int(first_bad.max())
        fresh = plan.completed(reached) - plan.completed(step)
        recorder.add({name: values[:fresh] for name, values in draws.items()}, lanes, reached, clock())
        elapsed, began = time.perf_counter() - began, time.perf_counter()
        speed = (end - step) / elapsed
        length = max(1, min(8 * length, round(speed * CHUNK_SECONDS)))
        step = reached
        bar.update(step, plan.burn_in, speed, lanes.temperature)
        recorder.look(lanes, step, clock())
    if (lanes.first_bad_steps >= 0).all():
        while recorder.count < plan.draws:
            recorder.add(lanes.missing(min(lanes.slots, plan.draws - recorder.count)), lanes, step, clock())
    return step


def warn_divergence(first_bad: np.ndarray, sampler: Any) -> None:
    bad = np.flatnonzero(first_bad >= 0)
    if not bad.size:
        return
    who = f"all {len(first_bad)} chains" if bad.size == len(first_bad) else f"{bad.size} of {len(first_bad)} chains"
    if len(first_bad) == 1:
        who = "the chain"
    said = ", ".join(f"chain {chain} at step {first_bad[chain]}" for chain in bad[:4])
    size = sampler.step_size if isinstance(sampler.step_size, float) else "now"
    warnings.warn(
        f"{who} diverged ({said}{', …' if bad.size > 4 else ''}): use a smaller step_size than {size}, "
        "or a sampler that stays stable at large ones, such as isotherm.mccadl",
        RuntimeWarning,
        stacklevel=4,
    )

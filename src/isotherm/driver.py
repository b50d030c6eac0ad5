"""The driver: chains, burn-in, thinning, progress, divergence, recording, resuming.

Time is spent in one compiled loop a chunk; between chunks the host draws the progress bar, hands draws and state to a
recorder and looks for divergence. Where the chunks end changes nothing (`loop.py`), so it can go by the clock.

Chains that one program advances together are a lane. On a CPU each chain has its own, and as many run at a time as
there are cores, so that a batch stays in its core's cache. Elsewhere one lane holds them all.
"""

import os
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm import arguments, results, threefry
from isotherm import store as stores
from isotherm.batches import Batches
from isotherm.loop import Carry, Plan, advance, observed, start
from isotherm.posterior import Posterior
from isotherm.problem import problem
from isotherm.progress import Bar, Stop, interruptible
from isotherm.samplers import Sampler
from isotherm.store import Draws, Folder, Parts, Recorder
from isotherm.types import Batch, Params

CHUNK_SECONDS = 0.25  # how often the host looks in
MOST_STEPS = 2**31 - 1  # steps are counted in 32 bits
RECORD_BYTES = 2**22  # what a chunk may record on the device
SMALL = 2**19  # n·d up to which a step is faster as one kernel than shared among two cores (benchmarks/kernel.py)


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
    what = problem(posterior, data, init, chains, jax.random.fold_in(jax.random.key(seed), 2**31))
    batches = Batches(what.population, batch_size, bool(replace))
    plan = make_plan(steps, passes, burn_in, thin, batches)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    parts = Parts(sampler, what, batches, chains, seed, name)
    if store is None:
        lanes = started(parts, lanes_of(parts))
        return finished(parts, plan, lanes, 0, 0.0, results.Memory(label(parts, plan), missing(lanes)), progress)
    with closing(Folder(store, new=True)) as folder:
        lanes = started(parts, lanes_of(parts))
        header, arrays = stores.described(parts, plan._asdict())
        header["chunk"] = stores.chunk_of(what.starts)
        with closing(Recorder(folder, label(parts, plan), header, arrays, missing(lanes))) as recorder:
            recorder.checkpoint(lanes, 0, 0.0)
            return finished(parts, plan, lanes, 0, 0.0, recorder, progress)


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
        lanes = stored(parts, saved)
        header, arrays = stores.again(saved, plan._asdict())
        tail = missing(lanes, header["draws"] % header["chunk"])
        tail = jax.tree.map(np.asarray, stores.filled(tail, saved, "tail."))
        step, seconds = header["step"], header["seconds"]
        with closing(Recorder(folder, label(parts, plan), header, arrays, tail, saved)) as recorder:
            return finished(parts, plan, lanes, step, seconds, recorder, progress)


def check_sampler(sampler: Any) -> None:
    if isinstance(sampler, type) or not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a sampler such as isotherm.mccadl(step_size=1e-3), got {sampler!r}")


def finished(
    parts: Parts, plan: Plan, lanes: list[Carry], step: int, seconds: float, recorder: Any, progress: bool
) -> Any:
    """Run from `step` to the end, or to where it is stopped; what the recorder makes of it."""
    with interruptible(isinstance(recorder, Recorder)) as stop, Bar(plan.steps, progress, step) as bar:
        clock = Clock(seconds)
        with one_lapack_thread():
            lanes, step = run(parts, plan, lanes, step, recorder, stop, bar, clock)
        found = recorder.finish(lanes, step, clock())
    stop.obey()
    warn_divergence(first_bad_steps(lanes), parts.sampler)
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


def lanes_of(parts: Parts) -> list[np.ndarray]:
    """The numbers of the chains in each lane."""
    return np.array_split(np.arange(parts.chains), parts.chains if jax.default_backend() == "cpu" else 1)


def chain_keys(parts: Parts, chains: Sequence[np.ndarray]) -> list[Any]:
    key = threefry.key(parts.seed)
    fold = jax.jit(jax.vmap(lambda chain: jax.random.fold_in(key, chain)))
    return [fold(lane) for lane in chains]


def started(parts: Parts, chains: Sequence[np.ndarray]) -> list[Carry]:
    """Where a run begins."""
    what, starts = parts.what, np.asarray(parts.what.starts)
    program = (what.posterior, what.unravel, parts.batches)
    return [
        start(parts.sampler, what.data, starts[lane], keys, *program)
        for lane, keys in zip(chains, chain_keys(parts, chains), strict=True)
    ]


def stored(parts: Parts, saved: stores.Checkpoint) -> list[Carry]:
    """Where a stored run goes on."""
    shapes = jax.eval_shape(lambda: started(parts, [np.arange(parts.chains)])[0])
    carry = jax.tree.map(np.asarray, stores.filled(shapes, saved, "carry."))
    return [jax.tree.map(lambda x, lane=lane: jnp.asarray(x[lane]), carry) for lane in lanes_of(parts)]


def missing(lanes: Sequence[Carry], draws: int = 0) -> Draws:
    """So many draws that were not made: NaN, with the names and shapes of those that are."""
    chains = len(first_bad_steps(lanes))
    fields = observed(lanes[0].state).items()
    return {name: np.full((draws, chains, *v.shape[1:]), np.nan, v.dtype) for name, v in fields}


def first_bad_steps(lanes: Sequence[Carry]) -> np.ndarray:
    return np.concatenate([lane.first_bad_step for lane in lanes])


def run(
    parts: Parts, plan: Plan, lanes: list[Carry], step: int, recorder: Any, stop: Stop, bar: Bar, clock: Clock
) -> tuple[list[Carry], int]:
    """Chunk after chunk, until the plan is done, a signal, or no chain is left."""
    sampler, what, batches = parts.sampler, parts.what, parts.batches
    keys = chain_keys(parts, lanes_of(parts))
    slots = max(2, min(RECORD_BYTES // what.starts.nbytes, 8192))
    small = batches.size * what.starts.shape[1] <= SMALL
    length, began = 4, time.perf_counter()

    def ahead(lane: Carry, keys: Any) -> tuple[Carry, dict[str, Any]]:
        span = (step, end)
        program = (what.posterior, what.unravel, batches, slots, small)
        return jax.block_until_ready(advance(sampler, lane, what.data, keys, plan, span, *program))

    with ThreadPoolExecutor(min(len(lanes), cores())) as pool:
        each: Any = map  # first one after the other, so that only one compiles
        while step < plan.steps and not stop.is_set() and (first_bad_steps(lanes) < 0).any():
            # The draw in progress at `step` and slots − 1 more: what the record has room for.
            room = plan.burn_in + (plan.completed(step) + slots) * plan.thin
            end = min(step + length, plan.steps, room)
            try:
                lanes, records = map(list, zip(*each(ahead, lanes, keys), strict=True))
            except jax.errors.JaxRuntimeError:
                if each is pool.map or not small:
                    raise
                small = False  # XLA could not make one kernel of this model after all
                continue
            each = pool.map
            first_bad = first_bad_steps(lanes)
            reached = end if (first_bad < 0).any() else int(first_bad.max())
            fresh = plan.completed(reached) - plan.completed(step)
            # Cut on the host: on the device, JAX would compile and keep a program for every length.
            draws = {
                n: np.concatenate([np.asarray(record[n])[:fresh] for record in records], axis=1) for n in records[0]
            }
            recorder.add(draws, lanes, reached, clock())
            elapsed, began = time.perf_counter() - began, time.perf_counter()
            speed = (end - step) / elapsed
            length = max(1, min(8 * length, round(speed * CHUNK_SECONDS)))
            step = reached
            bar.update(step, plan.burn_in, speed, temperature(lanes))
            recorder.look(lanes, step, clock())
    if (first_bad_steps(lanes) >= 0).all():
        while recorder.count < plan.draws:
            recorder.add(missing(lanes, min(slots, plan.draws - recorder.count)), lanes, step, clock())
    return lanes, step


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def temperature(lanes: Sequence[Carry]) -> float | None:
    """The kinetic temperature now, of samplers that have one."""
    if not hasattr(lanes[0].state, "kinetic_temperature"):
        return None
    return float(np.concatenate([lane.state.kinetic_temperature for lane in lanes]).mean())


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

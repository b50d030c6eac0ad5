"""`isotherm.sample` and `isotherm.resume`: from a user's arguments to labelled draws, in memory or in a store."""

import dataclasses
import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import jax
from numpy.typing import ArrayLike

from isotherm.data import processes
from isotherm.data.processes import TRACING
from isotherm.lib.types import Batch, Params, Results
from isotherm.posterior import Posterior
from isotherm.run.assemble import Run, make_run
from isotherm.run.execute import execute
from isotherm.run.goal import Goal
from isotherm.run.labels import Labels
from isotherm.run.largest_step import BOUND, find
from isotherm.run.on_devices import make_chains
from isotherm.run.plan import Plan, make_plan
from isotherm.run.recorder import Follower, Recorder
from isotherm.run.store_recorder import StoreRecorder, new_header
from isotherm.samplers.base import Sampler
from isotherm.store import anchor
from isotherm.store.arrays import open_results
from isotherm.store.folder import HIDDEN, as_path, check_new, locked
from isotherm.targets.checks import check_starts
from isotherm.targets.target import results_for_user


def sample(
    posterior: Posterior,
    sampler: Sampler[Any],
    data: Batch | None = None,
    init: Params | None = None,
    *,
    batch_size: int | None = None,
    steps: int | None = None,
    passes: float | None = None,
    burn_in: float = 0.2,
    thin: int = 10,
    chains: int = 4,
    seed: int = 0,
    replace: bool = True,
    probabilities: ArrayLike | None = None,
    store: str | os.PathLike[str] | None = None,
    name: str | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    spread: str = "chains",
    progress: bool = True,
) -> Results:
    """Draw from `posterior` given `data` with `sampler`.

    Args:
        posterior: the model, or what `isotherm.anchor` or `isotherm.from_numpyro` made of it.
        sampler: `isotherm.mccadl(...)` or another. At step_size="auto" a step size is looked for first, unless the
            sampler chooses by itself (`isotherm.eccadl`); the attributes say what was found.
        data: a pytree of arrays with one leading length N, or a table of pandas, polars or Arrow. Where there are
            several processes (`jax.distributed`), each gives its own rows, and N is the sum.
        init: the parameters to start from, or a function of a random key that draws them, one start a chain. Chains on
            an anchored posterior start at typical draws unless it is given.
        batch_size: n, the number of examples a step looks at; an anchored posterior has one of its own.
        steps: how many steps each chain makes; or
        passes: how many times N/n steps.
        burn_in: the fraction of the steps, from the first, that is not kept.
        thin: every how many steps a draw is kept.
        chains: how many independent chains.
        seed: same seed, same draws.
        replace: whether a batch may hold an example twice. `batch_size=N, replace=False` is the exact gradient.
        probabilities: a positive number for each row, if rows are not to be drawn with equal probabilities: row i then
            counts 1/(Np_i) times, so that the posterior stays the same. With `isotherm.mccadl`, take
            covariance_batch="own" then.
        store: a folder to be made, such as "run.zarr", where draws and state are written as the run goes. The run
            then holds little in memory, can be looked at with `xarray.open_datatree` while it goes, and, however it
            ends, `isotherm.resume` goes on with it. SIGTERM and SIGHUP end it in good order, with status 143 and 129.
        name: what the run is called, for its attributes.
        devices: how many devices to use, or which of `jax.devices()`; all unless given.
        spread: what is spread over several devices: "chains", where each device has all rows, or "rows", where each has
            its share of them and of the work of every chain. The draws are the same up to rounding.
        progress: whether to show a bar (on a terminal only).

    Returns:
        An `xarray.DataTree` in ArviZ's schema: `posterior` and `sample_stats` by (chain, draw), `posterior_mean` and
        `posterior_variance` over all steps after burn-in, and attributes saying how it was made. Ctrl-C returns what
        there is so far, with the attribute `interrupted` set. With a store, it is read from there when looked at.
    """
    with processes.together():
        run = make_run(
            posterior,
            sampler,
            data,
            init,
            batch_size=batch_size,
            replace=replace,
            chains=chains,
            seed=seed,
            name=name,
            probabilities=probabilities,
            devices=devices,
            over=spread,
        )
        plan = make_plan(steps, passes, burn_in, thin, run.batches)
        processes.check_same({"steps, passes, burn_in or thin": plan, "store": store is not None})
        check_place(store)
        return results_for_user(posterior, run_to_end(with_step_size(run, progress), plan, store, progress))


def check_place(store: str | os.PathLike[str] | None) -> None:
    """Refuse a place where the first process cannot make a store."""
    if store is not None:
        processes.agreed(lambda: check_new(store) if processes.is_first() else as_path(store))


def with_step_size(run: Run, progress: bool) -> Run:
    """The run with a number for step_size="auto", if its sampler does not choose one by itself."""
    chooses = getattr(run.sampler, "chooses_step_size", True)
    if chooses or getattr(run.sampler, "step_size", None) is not None:
        return run
    found = find(run, BOUND, progress)
    sampler = dataclasses.replace(run.sampler, step_size=found.largest.step_size)  # type: ignore[type-var]
    return run._replace(sampler=sampler, notes=dict(run.notes) | found.notes(BOUND))


def run_to_end(
    run: Run,
    plan: Plan,
    store: str | os.PathLike[str] | None,
    progress: bool,
    goal: Goal | None = None,
    judged: bool = True,
) -> Results:
    """The results of a run that begins, or of as much of it as there is when it is stopped."""
    check_place(store)
    with closing(make_chains(run)) as moving, ExitStack() as opened:
        with TRACING:
            processes.agreed(lambda: check_starts(run.evaluation, run.starts, run.data))
        if store is None:
            recorder = Recorder(Labels(run, plan), moving.missing())
            return execute(moving, plan, 0, 0.0, recorder, progress, goal, judged)
        path, header = as_path(store), new_header(run, plan, goal=goal)

        def new_store() -> Recorder:
            if not processes.is_first():
                return Follower(Labels(run, plan), moving.missing(), 0)
            opened.enter_context(locked(path, new=True))
            known = dataclasses.replace(header, constants=anchor.write(path / HIDDEN, run.evaluation))
            recorder = opened.enter_context(closing(StoreRecorder(path, run, known, moving.missing())))
            recorder.checkpoint(moving.snapshot(0, 0.0))
            return recorder

        recorder = processes.agreed(new_store)
        return finished(execute(moving, plan, 0, 0.0, recorder, progress, goal, judged), path)


def finished(tree: Results, path: Path) -> Results:
    """The results of a stored run, in every process that can see the store."""
    return tree if processes.is_first() or not (path / HIDDEN).is_dir() else open_results(path)

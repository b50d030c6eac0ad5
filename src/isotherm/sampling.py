"""`isotherm.sample` and `isotherm.resume`: from a user's arguments to labelled draws, in memory or in a store."""

import dataclasses
import os
from contextlib import closing
from typing import Any

from numpy.typing import ArrayLike

from isotherm import arguments
from isotherm.posterior import Posterior
from isotherm.run.chains import TRACING, Chains
from isotherm.run.checks import check_starts
from isotherm.run.execute import execute
from isotherm.run.goal import Goal
from isotherm.run.labels import Labels
from isotherm.run.plan import Plan, make_plan
from isotherm.run.problem import Run, make_run
from isotherm.run.recorder import Recorder
from isotherm.samplers.base import Sampler, check_sampler
from isotherm.stepping import BOUND, find
from isotherm.store import constants
from isotherm.store.folder import HIDDEN, as_path, check_new, latest, locked
from isotherm.store.header import Header, new_header
from isotherm.store.recorder import StoreRecorder
from isotherm.store.resume import rebuild_run, stored_state
from isotherm.types import Batch, Params, Results


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
    progress: bool = True,
) -> Results:
    """Draw from `posterior` given `data` with `sampler`.

    Args:
        posterior: the model, or what `isotherm.anchor` or `isotherm.from_numpyro` made of it.
        sampler: `isotherm.mccadl(...)` or another. At step_size="auto" a step size is looked for first, unless the
            sampler chooses by itself (`isotherm.eccadl`); the attributes say what was found.
        data: a pytree of arrays with one leading length N, or a table of pandas, polars or Arrow.
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
        progress: whether to show a bar (on a terminal only).

    Returns:
        An `xarray.DataTree` in ArviZ's schema: `posterior` and `sample_stats` by (chain, draw), `posterior_mean` and
        `posterior_variance` over all steps after burn-in, and attributes saying how it was made. Ctrl-C returns what
        there is so far, with the attribute `interrupted` set. With a store, it is read from there when looked at.
    """
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
    )
    plan = make_plan(steps, passes, burn_in, thin, run.batches)
    if store is not None:
        check_new(store)
    return posterior.results(run_to_end(with_step_size(run, progress), plan, store, progress))


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
    path = None if store is None else check_new(store)
    with closing(Chains(run)) as moving:
        with TRACING:
            check_starts(run.evaluation, run.starts, run.data)
        if path is None:
            recorder = Recorder(Labels(run, plan), moving.missing())
            return execute(moving, plan, 0, 0.0, recorder, progress, goal, judged)
        with locked(path, new=True):
            header = new_header(run, plan, constants.write(path / HIDDEN, run), goal)
            with closing(StoreRecorder(path, run, header, moving.missing())) as stored:
                stored.checkpoint(moving.snapshot(0, 0.0))
                return execute(moving, plan, 0, 0.0, stored, progress, goal, judged)


def resume(
    store: str | os.PathLike[str],
    posterior: Posterior,
    data: Batch | None = None,
    *,
    steps: int | None = None,
    sampler: Sampler[Any] | None = None,
    init: Params | None = None,
    progress: bool = True,
) -> Results:
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
    path = as_path(store)
    with locked(path, new=False):
        saved = latest(path)
        run = rebuild_run(saved, posterior, data, sampler, init)
        carry, tail = stored_state(saved, run)
        header = saved.header.continued(more)
        with closing(Chains(run, carry)) as moving, closing(StoreRecorder(path, run, header, tail)) as recorder:
            return posterior.results(continued(moving, header, recorder, progress))


def continued(moving: Chains, header: Header, recorder: StoreRecorder, progress: bool) -> Results:
    return execute(moving, header.plan, header.step, header.seconds, recorder, progress, header.until)

"""`isotherm.sample`: from a user's arguments to labelled draws, in memory or in a store."""

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack, closing

import jax
from numpy.typing import ArrayLike

from isotherm.data import processes
from isotherm.data.processes import TRACING
from isotherm.lib.types import Batch, Params, Results
from isotherm.posterior import Posterior
from isotherm.run.assemble import AnySampler, Run, RunSettings, assemble
from isotherm.run.execute import execute, make_chains
from isotherm.run.largest_step import BOUND, find
from isotherm.run.plan import Goal, Plan, make_plan
from isotherm.run.recorder import Labels, Recorder, StoreRecorder
from isotherm.samplers import settings as sampler_settings
from isotherm.store import anchor, identity
from isotherm.store.checkpoint import HIDDEN, StorePath, as_path, check_new, locked
from isotherm.store.identity import Header
from isotherm.targets.checks import check_starts
from isotherm.targets.user import results_for_user

CHUNK_BYTES = 2**22  # of the positions in a stored chunk, about
CHUNK_DRAWS = 10_000  # bound on the draws in one


def sample(
    posterior: Posterior,
    sampler: AnySampler,
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
    store: StorePath | None = None,
    name: str | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    spread: str = "chains",
    progress: bool = True,
) -> Results:
    """Draw from `posterior` given `data` with `sampler`.

    Args:
        posterior: the model, or what `isotherm.anchor` or `isotherm.from_numpyro` made of it.
        sampler: `isotherm.mccadl(...)` or another. At step_size="auto" a step size is searched first, unless the
            sampler chooses by itself (`isotherm.eccadl`); the attributes of the results say what was found.
        data: a pytree of arrays with one leading length N, or a table of pandas, polars or Arrow. Where there are
            several processes (`jax.distributed`), each gives its own rows, and N is the sum.
        init: the parameters to start from, or a function of a random key that draws them, one start a chain. Chains on
            an anchored posterior start at typical draws unless it is given.
        batch_size: n, the number of examples of a step; an anchored posterior has one of its own.
        steps, passes: the number of steps of each chain, or of times N/n steps; one of them.
        burn_in, thin: the fraction of the steps, from the first, that is not kept; every how many steps a draw is kept.
        chains, seed: the number of independent chains; same seed, same draws.
        replace: whether a batch may hold an example twice. `batch_size=N, replace=False` is the exact gradient.
        probabilities: a positive number for each row, if rows are not to be drawn with equal probabilities: row i
            then counts 1/(Np_i) times, and the posterior stays the same. `isotherm.mccadl` then needs
            covariance_batch="own".
        store: a folder to be made, such as "run.zarr", where draws and state are written as the run goes, instead of
            held in memory; `xarray.open_datatree` reads it at any time. However the run ends, `isotherm.resume` goes on
            with it. SIGTERM and SIGHUP end it in good order, with status 143 and 129.
        name, devices: what the run is called; the number of devices to use, or which of `jax.devices()`, or all.
        spread: what is spread over several devices: "chains", where each has all rows, or "rows", where each has its
            share of them and of the work of every chain. The draws are the same up to rounding.
        progress: whether to show a bar (on a terminal only).

    Returns:
        An `xarray.DataTree` in ArviZ's schema: `posterior` and `sample_stats` by (chain, draw), `posterior_mean` and
        `posterior_variance` over all steps after burn-in, and attributes that say how it was made. Ctrl-C returns the
        draws so far, with the attribute `interrupted` set.
    """
    settings = RunSettings(batch_size, replace, chains, seed, name, probabilities, devices, spread)
    with processes.together():
        run = assemble(posterior, sampler, data, init, settings)
        plan = make_plan(steps, passes, burn_in, thin, run.batches)
        processes.check_same({"steps, passes, burn_in or thin": plan, "store": store is not None})
        check_place(store)
        tree = run_to_end(with_step_size(run, progress), plan, store, progress)
        return results_for_user(posterior, run.evaluation.target, tree)


def check_place(store: StorePath | None) -> None:
    if store is not None:
        check_new(store) if processes.is_first() else as_path(store)


def with_step_size(run: Run, progress: bool) -> Run:
    """Return the run with a number for step_size="auto", if its sampler does not choose one by itself."""
    if sampler_settings.traits_of(run.sampler).chooses_step_size or getattr(run.sampler, "step_size", None) is not None:
        return run
    found = find(run, BOUND, progress)
    sampler = dataclasses.replace(run.sampler, step_size=found.largest.step_size)  # type: ignore[type-var]
    return run._replace(sampler=sampler, notes=run.notes | found.notes(BOUND))


def run_to_end(
    run: Run, plan: Plan, store: StorePath | None, progress: bool, goal: Goal | None = None, judged: bool = True
) -> Results:
    """Run from the first step to the end of the plan or to where it is stopped; return the results so far."""
    with closing(make_chains(run)) as chains, ExitStack() as stack:
        with TRACING:
            check_starts(run.evaluation, run.starts, run.data)
        if store is None:
            recorder = Recorder(Labels(run, plan), chains.nan_draws())
        else:
            path, header = as_path(store), new_header(run, plan, goal=goal)
            if processes.is_first():
                stack.enter_context(locked(path, new=True))
                header = dataclasses.replace(header, constants=anchor.write(path / HIDDEN, run.evaluation))
            recorder = stack.enter_context(closing(StoreRecorder(path, run, header, chains.nan_draws())))
            recorder.checkpoint(chains.snapshot(0, 0.0))
        return execute(chains, plan, 0, 0.0, recorder, progress, goal, judged)


def new_header(run: Run, plan: Plan, goal: Goal | None = None) -> Header:
    """Return the header of a run that begins."""
    return Header(
        sampler=sampler_settings.encode(run.sampler, plan.steps)[0],
        batches=run.batches,
        plan=plan._asdict(),
        chains=run.chains,
        seed=run.seed,
        name=run.name,
        layout=identity.layout(run.evaluation, run.starts),
        data=identity.fingerprint(run.data),
        model=identity.probe(run.evaluation, run.starts, run.data),
        numerics=identity.numerics(),
        versions=identity.versions(),
        chunk=int(max(1, min(CHUNK_DRAWS, CHUNK_BYTES // run.starts.nbytes))),
        constants="",
        notes=dict(run.notes),
        goal={} if goal is None else goal._asdict(),
    )

"""`isotherm.resume`: from a checkpoint back to its run, refusing what differs from it and saying in what."""

import dataclasses
import errno
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np

from isotherm.data import processes
from isotherm.lib import arguments
from isotherm.lib.files import StoreError
from isotherm.lib.types import Batch, Draws, Json, Params, Results
from isotherm.lib.warn import warn
from isotherm.posterior import Posterior
from isotherm.run.assemble import AnySampler, Run, RunSettings, assemble
from isotherm.run.chains import carry_shapes, chain_groups, nan_draws
from isotherm.run.execute import execute, make_chains
from isotherm.run.loop import Carry
from isotherm.run.plan import Goal, Plan
from isotherm.run.recorder import StoreRecorder, named_arrays
from isotherm.samplers import settings
from isotherm.samplers.base import check_sampler
from isotherm.store import anchor, identity
from isotherm.store.checkpoint import SAMPLER, Checkpoint, StorePath, as_path, latest, locked
from isotherm.store.identity import Header
from isotherm.targets.parameters import flattening
from isotherm.targets.user import results_for_user, with_defaults

Tree = TypeVar("Tree", Carry, Draws)


def resume(
    store: StorePath,
    posterior: Posterior,
    data: Batch | None = None,
    *,
    steps: int | None = None,
    sampler: AnySampler | None = None,
    init: Params | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    spread: str = "chains",
    progress: bool = True,
) -> Results:
    """Go on with a stored run exactly where it stopped: its draws are those of a run that was never interrupted.

    Args:
        store: the folder given to `isotherm.sample`.
        posterior, data: those of the run; others are refused.
        steps: how many steps to add to the run's own, to extend it; none unless given.
        sampler: that of the run, if it holds a function (a schedule) or is not one of isotherm's.
        init: parameters like those of the run, if they are not a nest of dicts, lists and tuples.
        devices, spread: as in `isotherm.sample`; they need not be what they were.
        progress: whether to show a bar (on a terminal only).

    Returns:
        What `isotherm.sample` would have returned.
    """
    if sampler is not None:
        check_sampler(sampler)
    more = 0 if steps is None else arguments.integer("steps", steps, 1)
    path = as_path(store)
    with processes.together(), ExitStack() as stack:
        if processes.is_first():
            stack.enter_context(locked(path, new=False))
        saved = latest(path)
        run = restore_run(saved, posterior, data, sampler, init, devices, spread)
        shapes = carry_shapes(run, chain_groups(run, 1)[0])
        carry = fill(shapes, saved, "carry.")
        in_no_chunk = saved.header.draws % saved.header.chunk
        tail = fill(nan_draws(run, shapes, in_no_chunk), saved, "tail.")
        plan = Plan(**saved.header.plan).extended(more)
        header = dataclasses.replace(saved.header, plan=plan._asdict(), versions=identity.versions())
        chains = stack.enter_context(closing(make_chains(run, carry)))
        recorder = stack.enter_context(closing(StoreRecorder(path, run, header, tail)))
        tree = execute(chains, plan, header.step, header.seconds, recorder, progress, goal_of(header))
        return results_for_user(posterior, run.evaluation.target, tree)


def goal_of(header: Header) -> Goal | None:
    """Return the goal, if there is one; with as many seconds again, if its time was up."""
    if not header.goal:
        return None
    goal = Goal(**header.goal)
    if goal.seconds is None or not goal.is_over(header.seconds):
        return goal
    return goal._replace(seconds=header.seconds + goal.seconds)


def restore_run(
    saved: Checkpoint,
    posterior: Posterior,
    data: Batch | None,
    sampler: AnySampler | None,
    init: Params | None,
    devices: int | Sequence[jax.Device] | None,
    spread: str,
) -> Run:
    """Return the run of a checkpoint; `sampler` and `init` are given where they could not be stored."""
    header, where, arrays = saved.header, saved.store, saved.part(SAMPLER)
    target, data, _ = with_defaults(posterior, data)
    refuse(where, "different JAX settings", changes(header.numerics, identity.numerics()))
    warn_versions(where, header.versions)
    try:
        if sampler is None:
            sampler = settings.decode(header.sampler, arrays)
        if init is None:
            init = identity.zeros(header.layout)
    except (ValueError, TypeError, KeyError, StopIteration, RecursionError) as error:
        raise ValueError(f"{where} cannot be resumed as it is: {error}") from error
    refuse(where, "another sampler", settings.differences(header.sampler, arrays, sampler, header.plan["steps"]))
    _, unravel = flattening(init)
    parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(init))
    target = dataclasses.replace(target, unravel=unravel)
    target, table = anchor.read(saved.path.parent, header.constants, target, parameters)
    batches, notes = header.batches, header.notes
    given = batches.size, batches.replace, header.chains, header.seed, header.name, table, devices, spread
    run = assemble(target, sampler, data, init, RunSettings(*given), notes)
    refuse(where, "different data", identity.data_differences(header.data, run.data))
    layouts = in_words(header.layout), in_words(identity.layout(run.evaluation, run.starts))
    refuse(where, "different parameters", changes(*layouts))
    refuse(where, "another posterior", identity.model_differences(header.model, run.evaluation, run.starts, run.data))
    if header.batches != run.batches:
        raise StoreError(errno.EILSEQ, f"{saved.path} is damaged: it says {header.batches.population} examples")
    return run


def fill(template: Tree, saved: Checkpoint, prefix: str) -> Tree:
    """Return a tree of shapes filled with the stored arrays of those names; StoreError unless all fit."""
    stored, expected = saved.part(prefix), dict(named_arrays(template))
    want, have = ({n: f"{a.dtype} of shape {a.shape}" for n, a in each.items()} for each in (expected, stored))
    if wrong := next(changes(want, have, "expected"), None):
        raise StoreError(errno.EILSEQ, f"{saved.path} does not fit this version's state: {prefix}{wrong}")
    leaves = [np.array(stored[name]) for name in expected]
    filled: Tree = jax.tree.unflatten(jax.tree.structure(template), leaves)
    return filled


def refuse(where: Path, made_with: str, differences: Iterator[str]) -> None:
    if listed := list(differences):
        more = f", and {len(listed) - 3} more" if len(listed) > 3 else ""
        raise ValueError(f"{where} was made with {made_with}: {'; '.join(listed[:3])}{more}")


def changes(before: Json, now: Json, verb: str = "was") -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield f"{name} is {now.get(name, 'absent')}, {verb} {before.get(name, 'absent')}"


def in_words(layout: Json) -> Json:
    return {f"init{leaf['name']}": f"{leaf['dtype']} of shape {tuple(leaf['shape'])}" for leaf in layout["leaves"]}


def warn_versions(where: Path, stored: Json) -> None:
    now, names = identity.versions(), ("isotherm", "jax", "jaxlib", "device")
    if changed := [f"{name} {stored.get(name)} → {now[name]}" for name in names if stored.get(name) != now[name]]:
        warn(
            f"{where} was made with {', '.join(changed)}; draws from here on are as good, but may differ in their last "
            "bits from what it would have drawn"
        )

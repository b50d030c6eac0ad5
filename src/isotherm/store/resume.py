"""From a checkpoint back to its run, refusing what differs from it and saying in what."""

import errno
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from isotherm.posterior import Posterior, opened
from isotherm.run.chains import carry_shapes, missing_draws
from isotherm.run.loop import Carry
from isotherm.run.problem import Run, flattening, make_run
from isotherm.samplers import settings
from isotherm.samplers.base import Sampler
from isotherm.shards import CHAINS
from isotherm.store import constants, identity
from isotherm.store.disk import StoreError
from isotherm.store.folder import SAMPLER, Checkpoint
from isotherm.store.recorder import named_arrays
from isotherm.types import Batch, Draws, Json, Params

Tree = TypeVar("Tree")


def rebuild_run(
    saved: Checkpoint,
    posterior: Posterior,
    data: Batch | None,
    sampler: Sampler[Any] | None,
    init: Params | None,
    devices: int | Sequence[jax.Device] | None = None,
    over: str = CHAINS,
) -> Run:
    """The run of a checkpoint; `sampler` and `init` where they could not be stored."""
    header, where, arrays = saved.header, saved.store, saved.part(SAMPLER)
    posterior, data, _ = opened(posterior, data)
    refuse(where, "different JAX settings", changes(header.numerics, identity.numerics()))
    warn_versions(where, header.versions)
    try:
        if sampler is None:
            sampler = settings.decode(header.sampler, arrays)
        if init is None:
            init = identity.zeros(header.layout)
            if init is None:
                raise ValueError("its parameters are not a nest of dicts, lists and tuples; pass init= again")
    except (ValueError, TypeError, KeyError, StopIteration, RecursionError) as error:
        raise ValueError(f"{where} cannot be resumed as it is: {error}") from error
    refuse(where, "another sampler", settings.differences(header.sampler, arrays, sampler, header.plan.steps))
    _, unravel = flattening(init)
    parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(init))
    posterior, table = constants.read(saved.path.parent, header.constants, posterior, unravel, parameters)
    run = make_run(
        posterior,
        sampler,
        data,
        init,
        batch_size=header.batches.size,
        replace=header.batches.replace,
        chains=header.chains,
        seed=header.seed,
        name=header.name,
        notes=header.notes,
        table=table,
        devices=devices,
        over=over,
    )
    refuse(where, "different data", identity.data_differences(header.data, run.data))
    refuse(where, "different parameters", changes(in_words(header.layout), in_words(identity.layout(run))))
    refuse(where, "another posterior", identity.model_differences(header.model, run))
    if header.batches != run.batches:
        raise StoreError(errno.EILSEQ, f"{saved.path} is damaged: it says {header.batches.population} examples")
    return run


def stored_state(saved: Checkpoint, run: Run) -> tuple[Carry, Draws]:
    """What the chains are made of, and the draws that are in no chunk yet."""
    header, shapes = saved.header, carry_shapes(run)
    tail = missing_draws(shapes, run.chains, header.draws % header.chunk)
    return fill(shapes, saved, "carry."), fill(tail, saved, "tail.")


def fill(template: Tree, saved: Checkpoint, prefix: str) -> Tree:
    """A tree of shapes, filled with the stored arrays of those names; StoreError unless all fit."""
    stored, expected = saved.part(prefix), dict(named_arrays(template))
    want, have = (
        {prefix + name: f"{array.dtype} of shape {array.shape}" for name, array in each.items()}
        for each in (expected, stored)
    )
    if wrong := next(changes(want, have, "expected"), None):
        raise StoreError(errno.EILSEQ, f"{saved.path} does not fit this version's state: {wrong}")
    return jax.tree.unflatten(jax.tree.structure(template), [np.array(stored[name]) for name in expected])


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
        warnings.warn(
            f"{where} was made with {', '.join(changed)}; draws from here on are as good, but may differ in their last "
            "bits from what it would have drawn",
            RuntimeWarning,
            stacklevel=4,
        )

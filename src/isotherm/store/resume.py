"""From a checkpoint back to its run, refusing what differs from it and saying in what."""

import errno
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from isotherm.posterior import Posterior
from isotherm.run.chains import carry_shapes, missing_draws
from isotherm.run.loop import Carry
from isotherm.run.problem import Run, make_run
from isotherm.samplers import settings
from isotherm.samplers.base import Sampler
from isotherm.store import identity
from isotherm.store.disk import StoreError
from isotherm.store.folder import Checkpoint
from isotherm.store.recorder import named_arrays
from isotherm.types import Batch, Draws, Json, Params

Tree = TypeVar("Tree")


def rebuild_run(
    saved: Checkpoint, posterior: Posterior, data: Batch, sampler: Sampler[Any] | None, init: Params | None
) -> Run:
    """The run of a checkpoint; `sampler` and `init` where they could not be stored."""
    header, where, arrays = saved.header, saved.store, saved.sampler_arrays()
    refuse(where, "different JAX settings", numerics_differences(header.numerics))
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
    )
    refuse(where, "different data", identity.data_differences(header.data, run.data))
    refuse(where, "different parameters", layout_differences(header.layout, identity.layout(run)))
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
    for name in expected.keys() | stored.keys():
        want, have = expected.get(name), stored.get(name)
        if want is None or have is None or (want.shape, want.dtype) != (have.shape, have.dtype):
            raise StoreError(
                errno.EILSEQ,
                f"{saved.path} does not fit this version's state: {prefix}{name} is "
                f"{'absent' if have is None else f'{have.dtype} of shape {have.shape}'}, expected "
                f"{'nothing' if want is None else f'{want.dtype} of shape {want.shape}'}",
            )
    return jax.tree.unflatten(jax.tree.structure(template), [np.array(stored[name]) for name in expected])


def refuse(where: Path, made_with: str, differences: Iterator[str]) -> None:
    if listed := list(differences):
        more = f", and {len(listed) - 3} more" if len(listed) > 3 else ""
        raise ValueError(f"{where} was made with {made_with}: {'; '.join(listed[:3])}{more}")


def numerics_differences(stored: Json) -> Iterator[str]:
    for name, now in identity.numerics().items():
        if stored.get(name) != now:
            yield f"{name} is {now}, was {stored.get(name)}"


def layout_differences(stored: Json, now: Json) -> Iterator[str]:
    before_leaves, now_leaves = ({leaf["name"]: leaf for leaf in each["leaves"]} for each in (stored, now))
    for name in sorted(before_leaves.keys() | now_leaves.keys()):
        if before_leaves.get(name) != now_leaves.get(name):
            yield f"init{name} is {in_words(now_leaves.get(name))}, was {in_words(before_leaves.get(name))}"


def in_words(leaf: Json | None) -> str:
    return "absent" if leaf is None else f"{leaf['dtype']} of shape {tuple(leaf['shape'])}"


def warn_versions(where: Path, stored: Json) -> None:
    now = identity.versions()
    changed = [
        f"{name} {stored.get(name)} → {now[name]}"
        for name in ("isotherm", "jax", "jaxlib", "device")
        if stored.get(name) != now[name]
    ]
    if changed:
        warnings.warn(
            f"{where} was made with {', '.join(changed)}; draws from here on are as good, but may differ in their last "
            "bits from what it would have drawn",
            RuntimeWarning,
            stacklevel=4,
        )

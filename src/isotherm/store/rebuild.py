"""From a checkpoint back to what the run was made of, refusing what differs from it and saying in what."""

import errno
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.batches import Batches
from isotherm.posterior import Posterior
from isotherm.problem import Problem, problem
from isotherm.store import description
from isotherm.store.checkpoint import Checkpoint
from isotherm.store.files import StoreError
from isotherm.store.recorder import names, part_of
from isotherm.types import Batch, Params


class Parts(NamedTuple):
    """What a run is made of, apart from its plan."""

    sampler: Any
    what: Problem
    batches: Batches
    chains: int
    seed: int
    name: str | None = None


def described(parts: Parts, plan: dict[str, int]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """All that `rebuilt` needs, as JSON and arrays."""
    sampler, arrays = description.settings(parts.sampler, plan["steps"])
    header = {
        "versions": description.versions(),
        "numerics": description.numerics(),
        "sampler": sampler,
        "batches": {
            "population": parts.batches.population,
            "size": parts.batches.size,
            "replace": parts.batches.replace,
        },
        "plan": plan,
        "chains": parts.chains,
        "seed": parts.seed,
        "name": parts.name,
        "layout": description.layout(parts.what.unravel, parts.what.starts),
        "data": description.fingerprint(parts.what.data),
        "model": description.probed(parts.what),
    }
    return header, arrays


def again(saved: Checkpoint, plan: dict[str, int]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `described` gave when the run was started, with a plan that may be longer."""
    header = saved.header | {"plan": plan, "versions": description.versions()}
    return header, {name: np.array(array) for name, array in saved.arrays.items() if name.startswith("sampler.")}


def rebuilt(saved: Checkpoint, posterior: Posterior, data: Batch, sampler: Any, init: Params | None) -> Parts:
    """The parts of a stored run; `sampler` and `init` where they could not be stored."""
    header = saved.header
    where = saved.path.parent.parent
    arrays = {name: array for name, array in saved.arrays.items() if name.startswith("sampler.")}
    refuse(where, "JAX settings", other_numerics(header["numerics"]))
    warn_versions(where, header["versions"])
    try:
        if sampler is None:
            sampler = description.rebuilt(header["sampler"], arrays)
        if init is None:
            init = description.zeros(header["layout"])
            if init is None:
                raise ValueError("its parameters are not a nest of dicts, lists and tuples; pass init= again")
    except (ValueError, TypeError, KeyError, StopIteration, RecursionError) as error:
        raise ValueError(f"{where} cannot be resumed as it is: {error}") from error
    refuse(where, "a sampler", description.other_sampler(header["sampler"], arrays, sampler, header["plan"]["steps"]))
    what = problem(posterior, data, init, header["chains"], header["seed"])
    refuse(where, "data", description.other_data(header["data"], what.data))
    refuse(where, "parameters", other_layout(header["layout"], description.layout(what.unravel, what.starts)))
    refuse(where, "a posterior", description.other_model(header["model"], what))
    batches = Batches(header["batches"]["population"], header["batches"]["size"], header["batches"]["replace"])
    if batches.population != what.population:
        raise StoreError(errno.EILSEQ, f"{saved.path} is damaged: it says {batches.population} examples")
    return Parts(sampler, what, batches, header["chains"], header["seed"], header.get("name"))


def refuse(where: Any, what: str, differences: Iterator[str]) -> None:
    said = list(differences)
    if said:
        more = f", and {len(said) - 3} more" if len(said) > 3 else ""
        raise ValueError(f"{where} was made with other {what.removeprefix('a ')}: {'; '.join(said[:3])}{more}")


def other_numerics(stored: dict[str, Any]) -> Iterator[str]:
    for name, now in description.numerics().items():
        if stored.get(name) != now:
            yield f"{name} is {now}, was {stored.get(name)}"


def other_layout(stored: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    then_leaves, now_leaves = ({leaf["name"]: leaf for leaf in each["leaves"]} for each in (stored, now))
    for name in sorted(then_leaves.keys() | now_leaves.keys()):
        if then_leaves.get(name) != now_leaves.get(name):
            yield f"init{name} is {said(now_leaves.get(name))}, was {said(then_leaves.get(name))}"


def said(leaf: dict[str, Any] | None) -> str:
    return "absent" if leaf is None else f"{leaf['dtype']} of shape {tuple(leaf['shape'])}"


def warn_versions(where: Any, stored: dict[str, Any]) -> None:
    now = description.versions()
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


def filled(template: Any, saved: Checkpoint, prefix: str) -> Any:
    """A tree of shapes, filled with the stored arrays of those names; StoreError unless all fit."""
    stored = part_of(saved.arrays, prefix)
    expected = dict(names(template))
    for name in expected.keys() | stored.keys():
        want, have = expected.get(name), stored.get(name)
        if want is None or have is None or (want.shape, want.dtype) != (have.shape, have.dtype):
            raise StoreError(
                errno.EILSEQ,
                f"{saved.path} does not fit this version's state: {prefix}{name} is "
                f"{'absent' if have is None else f'{have.dtype} of shape {have.shape}'}, expected "
                f"{'nothing' if want is None else f'{want.dtype} of shape {want.shape}'}",
            )
    leaves = [jnp.array(stored[name]) for name in expected]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)

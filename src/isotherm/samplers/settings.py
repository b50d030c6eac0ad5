"""A sampler as plain values: for the attributes of results, and for a store that builds it again."""

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm import samplers
from isotherm.lib.types import Json
from isotherm.samplers.base import Sampler, Traits

NAMES = tuple(name for name in samplers.__all__ if name.islower())  # of the builders


def fields(sampler: Sampler[Any]) -> Json:
    return {field.name: getattr(sampler, field.name) for field in dataclasses.fields(sampler)}  # type: ignore[arg-type]


def is_ours(sampler: object) -> bool:
    """Return whether a builder of isotherm makes samplers of this class, which may have a namesake elsewhere."""
    kind = type(sampler)
    name = kind.__name__.lower()
    return name in NAMES and kind.__module__ == getattr(samplers, name).__module__


def traits_of(sampler: object) -> Traits:
    found: Traits = getattr(sampler, "traits", Traits)()
    return found


def attributes(sampler: Sampler[Any]) -> Json:
    """Name and settings as attributes that any file format can hold, in the words of the builder's signature."""
    plain: Json = {"sampler": type(sampler).__name__.lower()}
    for field, value in fields(sampler).items():
        if value is None:
            value = 1.0 if field == "mass" else "auto"
        elif isinstance(value, np.ndarray | jax.Array):
            value = np.asarray(value).tolist()
        elif isinstance(value, jax.tree_util.Partial):  # a schedule
            value = getattr(value.func, "__qualname__", repr(value.func))
        elif not isinstance(value, bool | int | float | str):
            value = repr(value)
        plain[f"sampler_{field}"] = value
    return plain | {"sampler_temperature": float(traits_of(sampler).temperature)}


def encode(sampler: Sampler[Any], steps: int) -> tuple[Json, dict[str, np.ndarray]]:
    """Name and settings as JSON, arrays apart by field; a schedule becomes its values at some of the steps."""
    plain: Json = {}
    arrays: dict[str, np.ndarray] = {}
    for field, value in fields(sampler).items():
        if isinstance(value, np.ndarray | jax.Array):
            arrays[field] = np.asarray(value)
        elif callable(value):
            at = [step for step in (0, *(10**k for k in range(10))) if step <= steps]
            plain[field] = {"function": [[step, float(value(jnp.asarray(step, jnp.int32)))] for step in at]}
        else:
            plain[field] = value
    return {"name": type(sampler).__name__.lower(), "ours": is_ours(sampler), "settings": plain}, arrays


def decode(stored: Json, arrays: dict[str, np.ndarray]) -> Any:
    """Build the sampler that `encode` was given; ValueError if it held a function or is not one of ours, of which
    earlier versions stored the name alone."""
    builder_name, values = str(stored["name"]), dict(stored["settings"])
    if builder_name not in NAMES or not stored.get("ours", True):
        raise ValueError(f"its sampler, {builder_name}, is not one of isotherm's; pass it again as sampler=")
    functions = [field for field, value in values.items() if isinstance(value, dict)]
    if functions:
        raise ValueError(f"its sampler's {functions[0]} is a function, which is not stored; pass sampler= again")
    values |= {field: np.array(array) for field, array in arrays.items()}
    builder = getattr(samplers, builder_name)
    return builder(**{key: values[key] for key in inspect.signature(builder).parameters if key in values})


def differences(stored: Json, arrays: dict[str, np.ndarray], sampler: Sampler[Any], steps: int) -> Iterator[str]:
    """In what `sampler` differs from the one that `encode` was given."""
    now, now_arrays = encode(sampler, steps)
    if now["name"] != stored["name"]:
        yield f"sampler is {now['name']}, was {stored['name']}"
        return
    if now["ours"] != stored.get("ours", now["ours"]):
        mine, other = f"isotherm's {now['name']}", f"another {now['name']}"
        yield f"sampler is {mine}, was {other}" if now["ours"] else f"sampler is {other}, was {mine}"
        return
    before_all = stored["settings"] | {field: array.tolist() for field, array in arrays.items()}
    now_all = now["settings"] | {field: array.tolist() for field, array in now_arrays.items()}
    for field in sorted(before_all.keys() | now_all.keys()):
        before, value = before_all.get(field), now_all.get(field)
        if isinstance(before, dict) and isinstance(value, dict):
            values_before = dict(before["function"])
            for step, v in value["function"]:
                if step in values_before and values_before[step] != v:
                    yield f"{field}({step}) is {v}, was {values_before[step]}"
                    break
        elif before != value:
            yield f"{field} is {str(value)[:60]}, was {str(before)[:60]}"

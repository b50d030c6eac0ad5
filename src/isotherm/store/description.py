"""What a run is made of, as JSON and named arrays: enough to build it again, and to tell when something differs."""

import dataclasses
import hashlib
import inspect
import math
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from isotherm import samplers
from isotherm.problem import Problem, named, variable_names
from isotherm.store.arrays import check_name
from isotherm.types import Params, Vector
from isotherm.version import __version__

MODEL_TOLERANCE = 1e-3  # far above what another compiler's rounding does to a log density, far below another model


def versions() -> dict[str, str]:
    found = {name: version(name) for name in ("jax", "jaxlib", "numpy", "zarr", "xarray")}
    return {"isotherm": __version__, **found, "device": jax.devices()[0].device_kind}


SWITCHES = (
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_default_matmul_precision",
)


def numerics() -> dict[str, str]:
    """The switches of JAX that change what a step computes."""
    return {name: str(getattr(jax.config, name)) for name in SWITCHES}


def fingerprint(data: Any) -> list[dict[str, Any]]:
    """Name, shape, dtype and SHA-256 of each array of the data, as the device sees it."""
    return [
        {
            "name": name,
            "shape": list(array.shape),
            "dtype": array.dtype.name,
            "sha256": hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest(),
        }
        for name, array in named("data", data)
    ]


def other_data(stored: list[dict[str, Any]], data: Any) -> Iterator[str]:
    """In what `data` differs from the stored fingerprint."""
    then, now = ({entry["name"]: entry for entry in entries} for entries in (stored, fingerprint(data)))
    for name in sorted(then.keys() ^ now.keys()):
        yield f"{name} is {'missing' if name in then else 'new'}"
    for name in sorted(then.keys() & now.keys()):
        for what, said in (("shape", "has shape"), ("dtype", "has dtype"), ("sha256", "has other contents:")):
            if then[name][what] != now[name][what]:
                before, after = (
                    str(tuple(e[what]) if what == "shape" else e[what][:12]) for e in (then[name], now[name])
                )
                yield f"{name} {said} {after}, was {before}"
                break


def probed(what: Problem) -> dict[str, float]:
    """The model's two log densities at a position that depends on nothing but the number of parameters."""
    starts = what.starts
    position = jnp.asarray(0.1 * np.random.default_rng(0).standard_normal(starts.shape[1]), starts.dtype)
    example = jax.tree.map(lambda column: column[0], what.data)

    @jax.jit
    def both(position: Vector, example: Any) -> tuple[Any, Any]:
        params = what.unravel(position)
        return what.posterior.log_likelihood(params, example), what.posterior.log_prior(params)

    likelihood, prior = both(position, example)
    return {"log_likelihood": float(likelihood), "log_prior": float(prior)}


def other_model(stored: dict[str, float], what: Problem) -> Iterator[str]:
    for name, now in probed(what).items():
        then = float(stored[name])
        same = now == then or (math.isnan(now) and math.isnan(then))
        if not same and not abs(now - then) <= MODEL_TOLERANCE * max(1.0, abs(now), abs(then)):
            yield f"{name} is {now:.7g} at a test point, was {then:.7g}"


def layout(unravel: Callable[[Vector], Params], flat: Any) -> dict[str, Any]:
    """The structure of the parameters: dicts with string keys, lists and tuples of arrays; else its leaves alone."""
    params = jax.eval_shape(unravel, jax.ShapeDtypeStruct(flat.shape[-1:], flat.dtype))
    for name in variable_names(params):
        check_name(name)
    leaves = [
        {"name": jax.tree_util.keystr(path), "shape": list(leaf.shape), "dtype": leaf.dtype.name}
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    ]
    return {"leaves": leaves, "nest": nest(params)}


def nest(params: Any) -> Any:
    """A pytree with its leaves left out; None if it holds a node that JSON has no word for."""
    found: dict[str, Any]
    if type(params) is dict and all(type(key) is str for key in params):
        keys = sorted(params)
        children, found = [nest(params[key]) for key in keys], {"dict": keys}
    elif type(params) in (list, tuple):
        children, found = [nest(child) for child in params], {type(params).__name__: len(params)}
    else:
        return "leaf" if hasattr(params, "shape") else None
    return None if None in children else {**found, "of": children}


def zeros(stored: dict[str, Any]) -> Params | None:
    """Parameters of a stored layout, all zero; None if its nest could not be stored."""
    leaves = iter(stored["leaves"])

    def built(node: Any) -> Any:
        match node:
            case "leaf":
                leaf = next(leaves)
                return jnp.zeros(tuple(leaf["shape"]), leaf["dtype"])
            case {"dict": list(keys), "of": list(children)}:
                return {str(key): built(child) for key, child in zip(keys, children, strict=True)}
            case {"list": int(), "of": list(children)}:
                return [built(child) for child in children]
            case {"tuple": int(), "of": list(children)}:
                return tuple(built(child) for child in children)
        raise ValueError(f"parameters cannot be nested as {str(node)[:100]}")

    return None if stored["nest"] is None else built(stored["nest"])


def size(stored: dict[str, Any]) -> int:
    """The number of parameters of a stored layout."""
    return sum(math.prod(leaf["shape"]) for leaf in stored["leaves"])


def settings(sampler: Any, steps: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A sampler as JSON, its arrays apart; a function stands there as its values at some steps."""
    plain: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for field in dataclasses.fields(sampler):
        value = getattr(sampler, field.name)
        if isinstance(value, np.ndarray | jax.Array):
            arrays[f"sampler.{field.name}"] = np.asarray(value)
        elif callable(value):
            at = [step for step in (0, *(10**k for k in range(10))) if step <= steps]
            plain[field.name] = {"function": [[step, float(value(jnp.asarray(step, jnp.int32)))] for step in at]}
        else:
            plain[field.name] = value
    return {"name": type(sampler).__name__.lower(), "settings": plain}, arrays


def rebuilt(stored: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The sampler that `settings` described; ValueError if it held a function or is not one of ours."""
    name, fields = str(stored["name"]), dict(stored["settings"])
    if name not in samplers.__all__ or not name.islower():
        raise ValueError(f"its sampler, {name}, is not one of isotherm's; pass it again as sampler=")
    functions = [field for field, value in fields.items() if isinstance(value, dict)]
    if functions:
        raise ValueError(f"its sampler's {functions[0]} is a function, which is not stored; pass sampler= again")
    fields |= {key.removeprefix("sampler."): np.array(value) for key, value in arrays.items() if "sampler." in key}
    builder = getattr(samplers, name)
    return builder(**{key: fields[key] for key in inspect.signature(builder).parameters if key in fields})


def other_sampler(stored: dict[str, Any], arrays: dict[str, np.ndarray], sampler: Any, steps: int) -> Iterator[str]:
    now, now_arrays = settings(sampler, steps)
    if now["name"] != stored["name"]:
        yield f"sampler is {now['name']}, was {stored['name']}"
        return
    then_all = stored["settings"] | {k.removeprefix("sampler."): v.tolist() for k, v in arrays.items()}
    now_all = now["settings"] | {k.removeprefix("sampler."): v.tolist() for k, v in now_arrays.items()}
    for field in sorted(then_all.keys() | now_all.keys()):
        then, value = then_all.get(field), now_all.get(field)
        if isinstance(then, dict) and isinstance(value, dict):
            steps_of = dict(then["function"])
            for step, v in value["function"]:
                if step in steps_of and steps_of[step] != v:
                    yield f"{field}({step}) is {v}, was {steps_of[step]}"
                    break
        elif then != value:
            yield f"{field} is {str(value)[:60]}, was {str(then)[:60]}"

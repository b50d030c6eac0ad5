"""What a run is, as JSON: made, read with suspicion, and compared with what is to go on with it."""

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import get_origin

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data import processes
from isotherm.data.batches import Batches
from isotherm.data.on_disk.column import Column
from isotherm.data.on_disk.open_data import stream
from isotherm.lib.types import Batch, Json, Params
from isotherm.lib.version import __version__
from isotherm.store.arrays import check_name
from isotherm.targets.checks import named
from isotherm.targets.evaluation import Evaluation
from isotherm.targets.parameters import variable_names

# A model is recognised by its two log densities at positions near and far from 0, on both sides, and on rows from all
# over the data, summed in blocks. Another compiler's rounding moves a sum by about 1e-6 of its terms in float32.
SCALES = (0.1, 1.0, 3.0, 10.0)
PROBE_ROWS, PROBE_BLOCKS = 1024, 32
BY_ROWS = "rows:"  # prefix of a digest of data that does not depend on which process has which row
DIGEST_ROWS = 2**14  # of a block, so that a digest needs little memory
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio, the increment of SplitMix64
TOLERANCE = 3e-5  # relative, and no less than 4 units of rounding of the parameters' dtype


@dataclass(frozen=True)
class Header:
    """What a run is, in values that JSON has , and where it stands."""

    sampler: Json
    batches: Batches
    plan: Json  # steps, burn_in and thin
    chains: int
    seed: int
    name: str | None
    layout: Json
    data: list[Json]
    model: Json
    numerics: Json
    versions: Json
    chunk: int  # how many draws a chunk of an array on disk holds
    constants: str  # SHA-256 of the file of constants (anchor.py), if there is one
    notes: Json  # for the attributes of the results
    goal: Json  # ess, most_steps and seconds, of a run that goes on until it is met
    serial: int = -1  # of the checkpoint; before the first, −1
    step: int = 0
    seconds: float = 0.0
    draws: int = 0
    digests: dict[str, str] = dataclasses.field(default_factory=dict)  # SHA-256 of each whole chunk, by file

    def to_json(self) -> Json:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Json) -> "Header":
        """Check JSON that is read with suspicion; ValueError says where it is no header, or its sizes do not fit."""
        if fault := unlike(content, SHAPE, "header") or (
            content["goal"] and unlike(content["goal"], GOAL, "header.goal")
        ):
            raise ValueError(fault)
        if not (content["chunk"] and content["plan"]["thin"] and content["batches"]["size"]):
            raise ValueError("a size in it is zero")
        known = {name: content[name] for name in SHAPE}
        known["plan"] = {name: content["plan"][name] for name in PLAN}
        known["goal"] = {name: content["goal"][name] for name in GOAL if content["goal"]}
        known["batches"] = Batches(*(content["batches"][name] for name in SHAPE["batches"]))
        return cls(**known)


# What the JSON must hold: a type or one of several, a list of one kind, or an object with at least these entries.
# Integers are ≥ 0. Of most fields the annotation says it.
PLAN = {"steps": int, "burn_in": int, "thin": int}
GOAL = {"ess": (int, float), "most_steps": int, "seconds": (int, float, type(None))}
SHAPE: Json = {field.name: get_origin(field.type) or field.type for field in dataclasses.fields(Header)} | {
    "name": (str, type(None)),
    "plan": PLAN,
    "batches": Batches.__annotations__,
    "sampler": {"name": str, "settings": dict},
    "layout": {"leaves": [{"name": str, "shape": [int], "dtype": str}]},
    "data": [{"name": str, "shape": [int], "dtype": str, "sha256": str}],
    "model": {"log_likelihood": [[float]], "log_prior": [float]},
}


def unlike(value: object, shape: object, where: str) -> str | None:
    """Return where `value` first differs from what `SHAPE` asks for, if anywhere."""
    if isinstance(shape, dict):
        if not isinstance(value, dict) or not shape.keys() <= value.keys():
            return f"{where} is not an object with {', '.join(shape)}"
        return next(filter(None, (unlike(value[key], shape[key], f"{where}.{key}") for key in shape)), None)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where} is not a list"
        return next(filter(None, (unlike(each, shape[0], f"{where}[]") for each in value)), None)
    kinds = shape if isinstance(shape, tuple) else (shape,)
    if type(value) not in kinds or (isinstance(value, int) and value < 0):
        return f"{where} is {str(value)[:40]}"
    return None


def versions() -> dict[str, str]:
    installed = {name: version(name) for name in ("jax", "jaxlib", "numpy", "zarr", "xarray")}
    return {"isotherm": __version__, **installed, "device": jax.devices()[0].device_kind}


def numerics() -> dict[str, str]:
    """Return the switches of JAX that change what a step computes."""
    names = ("jax_enable_x64", "jax_default_prng_impl", "jax_threefry_partitionable", "jax_default_matmul_precision")
    return {name: str(getattr(jax.config, name)) for name in names}


def fingerprint(data: Batch, by_rows: bool = False) -> list[Json]:
    """Return name, shape, dtype and SHA-256 of each array of the data, as the device sees it. Of several processes, or
    `by_rows`, a sum over rows (`row_digest`) is in place of SHA-256, which no process can compute of all rows."""
    counts = processes.row_counts(data)
    by_rows = by_rows or processes.several()
    first = sum(counts[: jax.process_index()])
    return [
        {
            "name": name,
            "shape": [sum(counts), *array.shape[1:]],
            "dtype": array.dtype.name,
            "sha256": BY_ROWS + row_digest(array, first) if by_rows else digest(array),
        }
        for name, array in named("data", data)
    ]


def digest(array: np.ndarray | Column) -> str:
    """Return the SHA-256 of the contents; of a column on disk it is computed once."""
    if isinstance(array, Column) and array.dtype.name in array.known:
        return array.known[array.dtype.name]
    found = hashlib.sha256()
    for _, rows in stream(array):
        found.update(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)
    if isinstance(array, Column):
        array.known[array.dtype.name] = found.hexdigest()
    return found.hexdigest()


def row_digest(array: np.ndarray | Column, first: int) -> str:
    """Return a number that depends on what is in each row and on the row's number, `first` being that of the first row,
    but not on which process has it: a sum over all rows, modulo 2⁶⁴, of a hash of each; twice, with two multipliers."""
    words = -(-array.dtype.itemsize * math.prod(array.shape[1:]) // 8)
    multipliers = np.random.default_rng(64).integers(0, 2**64, (2, max(1, words)), np.uint64)
    sums = np.zeros(2, np.uint64)
    for begin in range(0, len(array), DIGEST_ROWS):
        some = np.ascontiguousarray(array[begin : begin + DIGEST_ROWS])
        content = some.reshape(len(some), -1).view(np.uint8)
        padded = np.zeros((len(some), 8 * words), np.uint8)
        padded[:, : content.shape[1]] = content
        number = np.arange(first + begin, first + begin + len(some), dtype=np.uint64) + np.uint64(1)
        for which, multiplier in enumerate(multipliers):
            mixed = (padded.view(np.uint64) * multiplier).sum(axis=1, dtype=np.uint64) + number * GOLDEN
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # SplitMix64, Steele et al. 2014
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            sums[which] += (mixed ^ (mixed >> np.uint64(31))).sum(dtype=np.uint64)
    return processes.total(sums).tobytes().hex()


def data_differences(stored: list[Json], data: Batch) -> Iterator[str]:
    """Yield a sentence for each array of `data` that differs from the stored fingerprint."""
    by_rows = any(entry["sha256"].startswith(BY_ROWS) for entry in stored)
    then, now = ({entry["name"]: entry for entry in entries} for entries in (stored, fingerprint(data, by_rows)))
    for name in sorted(then.keys() ^ now.keys()):
        yield f"{name} is {'missing' if name in then else 'new'}"
    for name in sorted(then.keys() & now.keys()):
        before, after = then[name], now[name]
        if before["shape"] != after["shape"]:
            yield f"{name} has shape {tuple(after['shape'])}, was {tuple(before['shape'])}"
        elif before["dtype"] != after["dtype"]:
            yield f"{name} has dtype {after['dtype']}, was {before['dtype']}"
        elif not by_rows and processes.several():
            continue  # no process can compute the SHA-256 of all rows: that the model says the same of them must do
        elif before["sha256"] != after["sha256"]:
            yield f"{name} has other contents: {after['sha256'][:12]}, was {before['sha256'][:12]}"


def probe(evaluation: Evaluation, starts: np.ndarray, data: Batch) -> Json:
    """Evaluate the model's two log densities at positions that depend on nothing but the number of parameters: at each
    scale, of both signs, all positive, all negative."""
    normal = np.random.default_rng(0).standard_normal((len(SCALES), starts.shape[1]))
    scaled = [scale * np.stack([z, abs(z), -abs(z)]) for scale, z in zip(SCALES, normal, strict=True)]
    positions = np.concatenate(scaled).astype(starts.dtype)
    rows = np.linspace(0, evaluation.batches.population - 1, PROBE_ROWS).round().astype(np.int32)
    some = processes.rows_of(data, rows)
    likelihoods, priors = (np.asarray(values, np.float64) for values in _densities(evaluation, positions, some))
    sums = likelihoods.reshape(len(positions), PROBE_BLOCKS, -1).sum(axis=2)
    return {"log_likelihood": sums.tolist(), "log_prior": priors.tolist()}


@jax.jit
def _densities(evaluation: Evaluation, positions: jax.Array, rows: Batch) -> tuple[jax.Array, jax.Array]:
    def both(position: jax.Array) -> tuple[jax.Array, jax.Array]:
        params = evaluation.target.unravel(position)
        values = jax.vmap(evaluation.target.log_likelihood, in_axes=(None, 0))(params, rows)
        return values, jnp.asarray(evaluation.target.log_prior(params))

    densities: tuple[jax.Array, jax.Array] = jax.lax.map(both, positions)
    return densities


def model_differences(stored: Json, evaluation: Evaluation, starts: np.ndarray, data: Batch) -> Iterator[str]:
    tolerance = max(TOLERANCE, 4 * float(jnp.finfo(starts.dtype).eps))
    for name, values in probe(evaluation, starts, data).items():
        now, then = np.asarray(values), np.asarray(stored[name], np.float64)
        if then.shape != now.shape:
            yield f"{name} was not compared: the stored values have another form"
            continue
        with np.errstate(invalid="ignore"):
            close = abs(now - then) <= tolerance * np.maximum(abs(now), abs(then))
        different = ~(close | (now == then) | (np.isnan(now) & np.isnan(then)))
        if different.any():
            first = np.unravel_index(int(np.argmax(different)), now.shape)
            yield f"{name} is {now[first]:.7g} at a test point, was {then[first]:.7g}"


def layout(evaluation: Evaluation, starts: np.ndarray) -> Json:
    """Return the structure of parameters that are dicts with string keys, lists and tuples; else the leaves alone."""
    flat = jax.ShapeDtypeStruct(starts.shape[1:], starts.dtype)
    params = jax.eval_shape(evaluation.target.unravel, flat)
    for name in variable_names(params):
        check_name(name)
    leaves = [
        {"name": jax.tree_util.keystr(path), "shape": list(leaf.shape), "dtype": leaf.dtype.name}
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    ]
    return {"leaves": leaves, "nest": nest(params)}


def nest(params: Params) -> Json | str | None:
    """Return a pytree with its leaves left out; None if it holds a node that JSON has no word for."""
    node: Json
    if type(params) is dict and all(type(key) is str for key in params):
        keys = sorted(params)
        children, node = [nest(params[key]) for key in keys], {"dict": keys}
    elif type(params) in (list, tuple):
        children, node = [nest(child) for child in params], {type(params).__name__: len(params)}
    else:
        return "leaf" if hasattr(params, "shape") else None
    return None if None in children else {**node, "of": children}


def zeros(stored: Json) -> Params:
    """Return parameters of a stored layout, all zero; refuse one whose nest could not be stored."""
    if stored["nest"] is None:
        raise ValueError("its parameters are not a nest of dicts, lists and tuples; pass init= again")
    leaves = iter(stored["leaves"])

    def rebuild(node: object) -> Params:
        match node:
            case "leaf":
                leaf = next(leaves)
                return jnp.zeros(tuple(leaf["shape"]), leaf["dtype"])
            case {"dict": list(keys), "of": list(children)}:
                return {str(key): rebuild(child) for key, child in zip(keys, children, strict=True)}
            case {"list": int(), "of": list(children)}:
                return [rebuild(child) for child in children]
            case {"tuple": int(), "of": list(children)}:
                return tuple(rebuild(child) for child in children)
        raise ValueError(f"parameters cannot be nested as {str(node)[:100]}")

    return rebuild(stored["nest"])

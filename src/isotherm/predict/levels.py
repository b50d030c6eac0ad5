"""Predictions of a model with effects: each row's own levels, and for a level that no data had, draws from its
population, the same in all rows of it."""

import json
import zlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.lib.types import Array, Batch, Example, Json, Matrix, Params, RandomKey, Results
from isotherm.targets.effects import CORRELATION, EFFECTS, LEVEL, SD, Columns, as_columns, is_numeric, labels_of

Function = Callable[[Params, Example], Params]
DRAW = "number_of_draw"


def with_own_levels(tree: Results, function: Function, data: Batch) -> tuple[Results, Function, Batch]:
    """Return the draws with their numbers, and the function and the data by which rows find their levels."""
    effects: Json = json.loads(tree.attrs[EFFECTS])
    columns, draws = as_columns(data), tree["posterior"].to_dataset()
    known = {name: draws[name + LEVEL].values for name in effects}
    if "posterior_mean" in tree.children:
        for name, labels in known.items():
            if tree["posterior_mean"].sizes[name + LEVEL] > len(labels):
                raise ValueError(
                    f"the run has kept the draws of {len(labels):,} levels of {name} only; use "
                    "isotherm.fit(…, keep=None) for those of all"
                )
    codes, new = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name, effect in effects.items():
        each = [numbered(name, column, columns, known[name]) for column in effect["by"]]
        codes[name], new[name] = (
            parts[0] if len(parts) == 1 else np.stack(parts, 1) for parts in zip(*each, strict=True)
        )
    rows = {name: column for name, column in columns.items() if is_numeric(column)}
    size = draws.sizes["chain"] * draws.sizes["draw"]
    numbers = np.arange(size, dtype=np.int32).reshape(draws.sizes["chain"], -1)
    numbered_tree: Results = tree.copy()
    numbered_tree["posterior"] = type(tree)(draws.assign({DRAW: (("chain", "draw"), numbers)}))

    def of_row(params: Params, example: Example) -> Params:
        own = {name: own_level(name, effects[name], params, example) for name in effects}
        visible = {name: value for name, value in params.items() if name != DRAW}
        return function(visible | own, example["rows"])

    return numbered_tree, of_row, {"rows": rows, "levels": codes, "new": new}


def numbered(name: str, column: str, columns: Columns, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each row's level among the known, −1 for others, and a number that stands for its label."""
    labels, codes = labels_of(name, column, columns)
    places = {label: place for place, label in enumerate(known.tolist())}
    found = np.array([places.get(label, -1) for label in labels.tolist()], np.int32)
    hashes = np.array([zlib.crc32(str(label).encode()) for label in labels.tolist()], np.uint32)
    return found[codes], hashes[codes]


def own_level(name: str, effect: Json, params: Params, example: Example) -> Array:
    """Return the value of a row's level, or values, if it has several."""
    code, label = example["levels"][name], example["new"][name]
    key = jax.random.fold_in(jax.random.key(zlib.crc32(name.encode())), params[DRAW])
    one = jax.vmap(lambda label: population_draw(jax.random.fold_in(key, label), name, effect, params))
    drawn = jnp.reshape(one(jnp.reshape(label, -1)), (*label.shape, *params[name].shape[1:]))
    known = jnp.reshape(code >= 0, (*code.shape, *([1] * (drawn.ndim - code.ndim))))
    return jnp.where(known, params[name][jnp.maximum(code, 0)], drawn)


def population_draw(key: RandomKey, name: str, effect: Json, params: Params) -> Array:
    """Return a level drawn from its population."""
    shape, dtype = params[name].shape[1:], params[name].dtype
    sd = jnp.broadcast_to(params[SD + name] if SD + name in params else jnp.asarray(effect["scale"], dtype), shape)
    if effect["df"] is not None:
        return sd * jax.random.t(key, effect["df"], shape, dtype)
    standard = jax.random.normal(key, shape, dtype)
    if CORRELATION + name in params:
        root: Matrix = jnp.linalg.cholesky(params[CORRELATION + name])
        standard = root @ standard
    return sd * standard

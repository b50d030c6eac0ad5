"""What the parameters are called in the results, and in words to the user."""

import math
from typing import Any

import jax
import numpy as np

from isotherm.lib.types import Params
from isotherm.posterior import Unravel


def variable_names(params: Params) -> list[str]:
    """What the arrays of the parameters are called in the results: "theta" for a bare array, paths for a tree."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return [jax.tree_util.keystr(path, simple=True, separator=".") or "theta" for path in paths]


def named_entries(params: Params) -> tuple[list[str], list[str]]:
    """What a user calls each entry of flat parameters, and each array of the parameters, in their order."""
    arrays, entries = variable_names(params), []
    for name, leaf in zip(arrays, jax.tree.leaves(params), strict=True):
        entries += [entry(name, np.shape(leaf), index) for index in range(math.prod(np.shape(leaf)))]
    return entries, arrays


def nested_params(arrays: dict[str, np.ndarray]) -> Params:
    """The nest of dicts and lists whose arrays have these names in the results; a bare array for "theta" alone."""
    if list(arrays) == ["theta"]:
        return arrays["theta"]
    nest: dict[str, Any] = {}
    for name, array in arrays.items():
        *outer, last = name.split(".")
        inner = nest
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = array

    def listed(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        children = {key: listed(child) for key, child in node.items()}
        if set(children) == set(map(str, range(len(children)))):
            return [children[str(index)] for index in range(len(children))]
        return children

    return listed(nest)


def entry_name(unravel: Unravel, flat: np.ndarray, dtype: np.dtype) -> str:
    """What a user calls the largest entry of flat parameters: "theta[3]", "bias"."""
    params = jax.eval_shape(unravel, jax.ShapeDtypeStruct(flat.shape, dtype))
    return named_entries(params)[0][int(np.argmax(np.abs(flat)))]


def entry(name: str, shape: tuple[int, ...], index: int) -> str:
    """What a user calls an entry of an array: "theta[3]", "bias"."""
    return f"{name}[{', '.join(map(str, np.unravel_index(index, shape)))}]" if shape else name

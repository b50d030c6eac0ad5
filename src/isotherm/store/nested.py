"""Nests of named tuples, lists, dicts and None with arrays as leaves: as JSON and a dict of arrays, and back."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from isotherm.lib.types import Array, Json

Node = Json | list[Any] | str | None


def pack(tree: object, name: str, arrays: dict[str, np.ndarray]) -> Node:
    """Return a nest with the names of its arrays in their places, and put these into `arrays`."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {"dict": {key: pack(child, f"{name}.{key}", arrays) for key, child in tree.items()}}
    if isinstance(tree, list):
        return [pack(child, f"{name}.{i}", arrays) for i, child in enumerate(tree)]
    if isinstance(tree, tuple):
        fields = zip(tree._fields, tree, strict=True)  # type: ignore[attr-defined]
        return {type(tree).__name__: {field: pack(child, f"{name}.{field}", arrays) for field, child in fields}}
    arrays[name] = np.asarray(tree)
    return name


def unpack(node: Node, arrays: Mapping[str, np.ndarray], classes: Mapping[str, Callable[..., object]]) -> object:
    """Return the nest again, with arrays on the device; KeyError, TypeError or ValueError if that cannot be."""
    if node is None:
        return None
    if isinstance(node, str):
        placed: Array = jax.device_put(np.array(arrays[node]))
        return placed
    if isinstance(node, list):
        return [unpack(child, arrays, classes) for child in node]
    ((kind, children),) = node.items()
    found = {name: unpack(child, arrays, classes) for name, child in children.items()}
    return found if kind == "dict" else classes[kind](**found)

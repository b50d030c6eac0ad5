"""Parameters: the user's pytree and its flat vector, what their entries are called, and where chains start."""

import math
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from isotherm.data.batches import AliasTable, Batches
from isotherm.lib.types import Batch, Float, Params, RandomKey, Vector
from isotherm.targets import checks
from isotherm.targets.evaluation import Evaluation
from isotherm.targets.target import NOT_A_STEP, Target, Unravel

MOST_SEED = 2**32 - 1  # JAX makes keys of 32 bits unless it has 64


def variable_names(params: Params) -> list[str]:
    """Return what the arrays are called in the results: "theta" for a bare array, paths for a tree."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return [jax.tree_util.keystr(path, simple=True, separator=".") or "theta" for path in paths]


def named_entries(params: Params) -> tuple[list[str], list[str]]:
    """Return what a user calls each entry of flat parameters, and each array of the parameters, in their order."""
    arrays, entries = variable_names(params), []
    for name, leaf in zip(arrays, jax.tree.leaves(params), strict=True):
        entries += [entry(name, np.shape(leaf), index) for index in range(math.prod(np.shape(leaf)))]
    return entries, arrays


def entry_name(unravel: Unravel, flat: np.ndarray, dtype: np.dtype) -> str:
    """Return what a user calls the largest entry of flat parameters: "theta[3]", "bias"."""
    params = jax.eval_shape(unravel, jax.ShapeDtypeStruct(flat.shape, dtype))
    return named_entries(params)[0][int(np.argmax(np.abs(flat)))]


def entry(name: str, shape: tuple[int, ...], index: int) -> str:
    """Return what a user calls an entry of an array: "theta[3]", "bias"."""
    return f"{name}[{', '.join(map(str, np.unravel_index(index, shape)))}]" if shape else name


def nested_params(arrays: dict[str, np.ndarray]) -> Params:
    """Return the nest of dicts and lists whose arrays have these names; a bare array for "theta" alone."""
    if list(arrays) == ["theta"]:
        return arrays["theta"]
    nest: dict[str, Params] = {}
    for name, array in arrays.items():
        *outer, last = name.split(".")
        inner = nest
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = array
    return _with_lists(nest)


def _with_lists(node: Params) -> Params:
    """Return a nest of dicts with a list in place of each dict whose keys are 0, 1, …"""
    if not isinstance(node, dict):
        return node
    children = {key: _with_lists(child) for key, child in node.items()}
    if set(children) == set(map(str, range(len(children)))):
        return [children[str(index)] for index in range(len(children))]
    return children


def flattening(params: Params) -> tuple[np.dtype, Unravel]:
    """Return the dtype of flat parameters, and the way back; nothing is computed, so nothing is compiled."""
    unravels = []

    def raveled(params: Params) -> Vector:
        position, unravel = ravel_pytree(params)
        unravels.append(unravel)
        return position

    return jax.eval_shape(raveled, jax.tree.map(jnp.asarray, params)).dtype, unravels[0]


def is_function(init: Params | Callable[[RandomKey], Params]) -> bool:
    """Return whether `init` is to be called. A module with parameters inside (Equinox's, say) may be callable too, but
    JAX sees its arrays; of a function it sees nothing but the function."""
    return callable(init) and (isinstance(init, jax.tree_util.Partial) or jax.tree_util.all_leaves([init]))


def starting_points(init: Params | Callable[[RandomKey], Params], chains: int, seed: int) -> list[Params]:
    """Return the parameters that all chains start from, or what `init(key)` returns, one for each chain."""
    if not is_function(init):
        return [checks.as_arrays("init", init)]
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), NOT_A_STEP), chains)
    try:
        return [checks.as_arrays("init(key)", init(key)) for key in keys]
    except Exception as error:
        raise ValueError(f"init(key) must return parameters to start from, it raised {error!r}") from error


def check_params(params: Params) -> None:
    """Refuse parameters that are not finite floating arrays, or whose names the results cannot tell apart."""
    arrays = list(checks.named("init", params))
    if not arrays:
        raise ValueError(f"init holds no array, got {params!r}; give the parameters to start from")
    for name, array in arrays:
        if array.dtype.kind != "f" and array.dtype != jnp.bfloat16:
            raise TypeError(
                f"{name} must be a floating array, got dtype {array.dtype}; parameters are moved by forces, so "
                "write 0.0 rather than 0, and keep integers in the data"
            )
        if not array.size:
            raise ValueError(f"{name} must have at least one entry, got shape {array.shape}; leave it out")
        checks.check_finite(name, array, "entry")
    names = variable_names(params)
    taken = {"chain": 1, "draw": 1}
    for name, leaf in zip(names, jax.tree.leaves(params), strict=True):
        for label in (name, *(f"{name}_dim_{axis}" for axis in range(np.ndim(leaf)))):
            taken[label] = taken.get(label, 0) + 1
    for name in names:
        if "/" in name or taken[name] > 1:
            why = "contains a slash" if "/" in name else "is also the name of another array or dimension of the results"
            raise ValueError(f"init has a parameter named {name!r}, which {why}; rename it")


def initial_positions(
    target: Target, data: Batch, init: Params | None, batches: Batches, table: AliasTable | None, chains: int, seed: int
) -> tuple[Evaluation, Float[np.ndarray, "chains d"]]:
    """Return the target on batches of the data, and where the chains start, after checking that both can be used."""
    given = target.typical_params(seed, chains) if init is None else starting_points(init, chains, seed)
    for params in given:
        check_params(params)
    checks.check_model(target, given[0], data)
    dtype, unravel = flattening(given[0])
    target = replace(target, unravel=unravel)
    flat = [np.concatenate([np.ravel(leaf).astype(dtype) for leaf in jax.tree.leaves(params)]) for params in given]
    positions = [np.asarray(target.position(each)) for each in flat]
    starts = np.stack(positions * (chains // len(positions)))  # one start for all chains, or one for each
    evaluation = Evaluation(target, batches, table)
    checks.check_derivatives(evaluation, starts[0], data)
    return evaluation, starts

"""What is to be sampled, checked before any work is done: a posterior, its data, where the chains start."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from isotherm.batches import placed
from isotherm.posterior import Posterior
from isotherm.types import Batch, Params, RandomKey, Vector


class Problem(NamedTuple):
    """The checked arguments; data on the device, `starts` with one flat position a chain."""

    posterior: Posterior
    data: Batch
    population: int
    starts: Float[np.ndarray, "chains d"]
    unravel: Callable[[Vector], Params]


def problem(posterior: Posterior, data: Batch, init: Params, chains: int, seed: int) -> Problem:
    """Check everything that can be wrong with the three, in words, before anything is compiled."""
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior must be an isotherm.Posterior, got {type(posterior).__name__}")
    population = check_data(data)
    given = [init]
    if callable(init):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 2**31), chains)
        given = [drawn(init, key) for key in keys]
    for params in given:
        check_params(params)
    check_model(posterior, given[0], data)
    dtype, unravel = flattening(given[0])
    starts = np.stack([flat(params, dtype) for params in given])
    if len(given) < chains:
        starts = np.repeat(starts, chains, axis=0)
    return Problem(posterior, jax.tree.map(placed, data), population, starts, unravel)


def flattening(params: Params) -> tuple[Any, Callable[[Vector], Params]]:
    """The dtype of flat parameters, and the way back; nothing is computed, so nothing is compiled."""
    found = []

    def raveled(params: Params) -> Vector:
        position, unravel = ravel_pytree(params)
        found.append(unravel)
        return position

    return jax.eval_shape(raveled, jax.tree.map(jnp.asarray, params)).dtype, found[0]


def flat(params: Params, dtype: Any) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(leaf)).astype(dtype) for leaf in jax.tree.leaves(params)])


def drawn(init: Callable[[RandomKey], Params], key: RandomKey) -> Params:
    try:
        return init(key)
    except Exception as error:
        raise ValueError(f"init(key) must return parameters to start from, it raised {error!r}") from error


def check_data(data: Batch) -> int:
    """The number of examples, if all arrays agree on it and are finite."""
    arrays = named("data", data)
    if not arrays:
        raise ValueError(f"data holds no array, got {data!r}")
    lengths = {}
    for name, array in arrays:
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}; encode it as numbers first")
        if array.ndim == 0:
            raise ValueError(f"{name} must have one row an example, got the scalar {array}")
        lengths[name] = array.shape[0]
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"data arrays must have the same number of rows, but {said}")
    if not array.shape[0]:
        raise ValueError("data must hold at least one row, got none")
    for name, array in arrays:
        check_finite(name, array, "row")
    return int(array.shape[0])


def check_params(params: Params) -> None:
    arrays = named("init", params)
    if not arrays:
        raise ValueError(f"init holds no array, got {params!r}; give the parameters to start from")
    for name, array in arrays:
        if array.dtype.kind != "f" and array.dtype != jnp.bfloat16:
            raise TypeError(
                f"{name} must be a floating array, got dtype {array.dtype}; parameters are moved by forces, so "
                "write 0.0 rather than 0, and keep integers in the data"
            )
        check_finite(name, array, "entry")
    check_names(params)


def check_names(params: Params) -> None:
    """Each array gets a name of its own in the results."""
    names = variable_names(params)
    taken = {"chain": 1, "draw": 1}
    for name, leaf in zip(names, jax.tree.leaves(params), strict=True):
        for label in (name, *(f"{name}_dim_{axis}" for axis in range(np.ndim(leaf)))):
            taken[label] = taken.get(label, 0) + 1
    for name in names:
        if "/" in name or taken[name] > 1:
            why = "contains a slash" if "/" in name else "is also the name of another array or dimension of the results"
            raise ValueError(f"init has a parameter named {name!r}, which {why}; rename it")


def variable_names(params: Params) -> list[str]:
    """What the arrays of the parameters are called in the results: "theta" for a bare array, paths for a tree."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return [jax.tree_util.keystr(path, simple=True, separator=".") or "theta" for path in paths]


def check_finite(name: str, array: np.ndarray, word: str) -> None:
    if array.dtype.kind in "biu":
        return
    finite = np.isfinite(array)
    if not finite.all():
        first = np.unravel_index(int(np.argmin(finite)), array.shape)
        where = f" in {word} {first[0]}" if array.ndim else ""
        raise ValueError(f"{name} must be finite, got {array[first]}{where}; drop or fill such entries first")


def check_model(posterior: Posterior, params: Params, data: Batch) -> None:
    """Both functions, traced on shapes alone, return scalars."""
    example = jax.tree.map(lambda column: jax.ShapeDtypeStruct(column.shape[1:], _dtype(column)), data)
    shaped = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), _dtype(leaf)), params)
    for name, function, inputs in (
        ("log_likelihood", posterior.log_likelihood, (shaped, example)),
        ("log_prior", posterior.log_prior, (shaped,)),
    ):
        try:
            value = jax.eval_shape(function, *inputs)
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            said = f"init has {_shapes(params)}" + (
                f" and one example has {_shapes(example)}" if name == "log_likelihood" else ""
            )
            raise ValueError(f"{name} does not fit: {said}; it raised {type(error).__name__}: {reason}") from error
        leaves = jax.tree.leaves(value)
        if len(leaves) != 1 or getattr(leaves[0], "shape", None) != ():
            raise ValueError(
                f"{name} must return a scalar"
                + (" for one example" if name == "log_likelihood" else "")
                + f", got {_shapes(value)}; sum over what is left"
            )
        if not jnp.issubdtype(leaves[0].dtype, jnp.floating):
            raise TypeError(f"{name} must return a floating number, got dtype {leaves[0].dtype}")


def named(root: str, tree: Any) -> list[tuple[str, np.ndarray]]:
    """The arrays of a tree as NumPy sees them, each with the words a user would write to reach it."""
    try:
        leaves = jax.tree_util.tree_leaves_with_path(tree)
    except ValueError as error:  # the only one that JAX raises here
        raise TypeError(f"{root} has a dict whose keys cannot be sorted; use strings") from error
    return [(root + jax.tree_util.keystr(path), np.asarray(leaf)) for path, leaf in leaves]


def _dtype(leaf: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(np.asarray(leaf).dtype if not hasattr(leaf, "dtype") else leaf.dtype)


def _shapes(tree: Any) -> str:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    said = [f"{jax.tree_util.keystr(path) or 'an array'} of shape {jnp.shape(leaf)}" for path, leaf in leaves]
    return ", ".join(said) or "nothing"

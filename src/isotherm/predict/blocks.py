"""The draws of a run, and the values of a function at all of them, for block after block of rows.

Of one block of rows the values at all draws are held at once, so that their quantiles are exact; they are computed some
draws at a time, so that the function's intermediate arrays stay small too.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import Jaxpr, subjaxprs

from isotherm.data.batches import pad
from isotherm.diagnostics.verdict import good_chains
from isotherm.lib.progress import progress_bar
from isotherm.lib.types import Batch, Example, Params, Results
from isotherm.lib.warn import warn
from isotherm.targets import parameters

KEPT = 2**26  # bytes of draws that are kept between blocks of rows; more are read again
PREDICTION_DRAWS = 1000  # of estimators and tables, at most: the error of their mean is 3 % of the posterior's width
VALUES = 2**25  # bytes of values at all draws, of one block of rows
MOST_DRAWS = 128  # computed together
WORK = 2**26  # bytes of the function's intermediate arrays, of one block of draws and rows

Function = Callable[[Params, Example], Params]  # returns any pytree of arrays


class Draws:
    """The draws of a run, read as they are needed: those of chains that did not diverge, in blocks."""

    def __init__(self, tree: Results, init: Params | None, most: int | None) -> None:
        posterior = tree["posterior"].to_dataset()
        good = np.flatnonzero(good_chains(tree))
        if not len(good):
            raise ValueError("all chains of tree diverged, so there is nothing to predict with")
        if bad := set(range(posterior.sizes["chain"])) - set(good):
            which = ", ".join(map(str, sorted(bad)))
            chains = len(good) + len(bad)
            warn(f"{len(bad)} of {chains} chains diverged and are left out of the predictions: {which}")
        every = 1 if most is None else max(1, math.ceil(len(good) * posterior.sizes["draw"] / most))
        self.dataset = posterior.isel(chain=good, draw=slice(None, None, every))
        arrays = {str(name): array for name, array in self.dataset.data_vars.items()}
        shaped = {name: np.zeros(array.shape[2:], array.dtype) for name, array in arrays.items()}
        self.params = parameters.nested_params(shaped) if init is None else init
        self.names = parameters.variable_names(self.params)
        if sorted(self.names) != sorted(arrays):
            raise ValueError(
                f"the draws have {', '.join(arrays)}, and init has {', '.join(self.names)}; give init= as in the run"
            )
        self.chains, self.each = self.dataset.sizes["chain"], self.dataset.sizes["draw"]
        if not self.each:
            raise ValueError("tree has no draws; let the run go on first")
        self.count = self.chains * self.each
        self.are_kept = sum(array.nbytes for array in arrays.values()) <= KEPT
        self._kept: dict[tuple[int, int], Params] = {}

    def block(self, chain: int, first: int, size: int) -> Params:
        """Return the parameters of `size` draws; the last is repeated where there are fewer."""
        if (chain, first) in self._kept:
            return self._kept[chain, first]
        some = self.dataset.isel(chain=chain, draw=slice(first, first + size))
        leaves = [pad(some[name].values, size) for name in self.names]
        params = jax.tree.unflatten(jax.tree.structure(self.params), leaves)
        if self.are_kept:
            params = self._kept[chain, first] = jax.device_put(params)
        return params


class Task(NamedTuple):
    """The function, the arrays that it returns for one row and one draw, and how many rows and draws go together."""

    function: Function
    outputs: dict[str, jax.ShapeDtypeStruct]
    rows: int
    draws: int


def make_task(function: Function, draws: Draws, columns: Batch, rows: int) -> Task:
    """Return what the function returns, and blocks in which it needs little memory."""
    params, example = jax.tree.map(_shape, draws.params), jax.tree.map(lambda column: _shape(column, 1), columns)
    try:
        hash(function)
        program, shapes = jax.make_jaxpr(function, return_shape=True)(params, example)
    except Exception as error:
        raise ValueError(
            f"function(params, example) does not fit the draws and the data: it raised {type(error).__name__}: {error}"
        ) from error
    leaves = jax.tree.leaves(shapes)
    if not leaves:
        raise ValueError("function must return an array or a pytree of arrays, got none; is there a return missing?")
    names = ["prediction"] if jax.tree_util.all_leaves([shapes]) else parameters.variable_names(shapes)
    outputs = dict(zip(names, leaves, strict=True))
    for name, output in outputs.items():
        if output.dtype.kind not in "biuf":
            raise TypeError(f"function must return real numbers, got dtype {output.dtype} of {name}")
    cell = max(1, sum(output.size * output.dtype.itemsize for output in outputs.values()))
    work = cell + _bytes_of(program.jaxpr)
    size = _power(rows, VALUES // (draws.count * cell), WORK // work)
    return Task(function, outputs, size, _power(draws.each, MOST_DRAWS, WORK // (size * work)))


def _shape(array: np.ndarray, skip: int = 0) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(np.shape(array)[skip:], jax.dtypes.canonicalize_dtype(array.dtype))


def _power(number: int, *bounds: int) -> int:
    """Return a power of two, so that few sizes are compiled for: the next from `number`, but within the bounds."""
    return min(1 << max(0, number - 1).bit_length(), *(1 << max(1, bound).bit_length() - 1 for bound in bounds))


def _bytes_of(program: Jaxpr) -> int:
    """Return the bytes of all intermediate results of a program, if none is ever freed or fused with another."""
    results = (out.aval for step in program.eqns for out in step.outvars)
    arrays = (result for result in results if isinstance(result, jax.core.ShapedArray))
    return sum(array.size * array.dtype.itemsize for array in arrays) + sum(map(_bytes_of, subjaxprs(program)))


@partial(jax.jit, static_argnums=0)
def _values(function: Function, params: Params, examples: Batch) -> list[jax.Array]:
    """Return the arrays that the function returns, by (row, …, draw)."""
    by_draw = jax.vmap(function, in_axes=(0, None), out_axes=-1)
    return jax.tree.leaves(jax.vmap(by_draw, in_axes=(None, 0))(params, examples))


def blocks(
    task: Task, draws: Draws, columns: Batch, rows: int, show: bool
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Yield the first row of each block, and what the function returns there, by (row, …, draw); chain after chain."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    held = {n: np.empty((task.rows, *out.shape, draws.count), out.dtype) for n, out in task.outputs.items()}
    words = TextColumn("predicting"), TextColumn("rows")
    with progress_bar(show, words[0], BarColumn(), MofNCompleteColumn(), words[1], TimeRemainingColumn()) as bar:
        line = bar.add_task("", total=rows)
        for first in range(0, rows, task.rows):
            last = min(rows, first + task.rows)
            some = jax.tree.map(lambda column: pad(np.asarray(column[first:last]), task.rows), columns)  # noqa: B023
            some = jax.device_put(some)
            for chain in range(draws.chains):
                for begin in range(0, draws.each, task.draws):
                    size = min(task.draws, draws.each - begin)
                    at = chain * draws.each + begin
                    found = _values(task.function, draws.block(chain, begin, task.draws), some)
                    for array, values in zip(held.values(), found, strict=True):
                        array[..., at : at + size] = np.asarray(values)[..., :size]
            yield first, {name: array[: last - first] for name, array in held.items()}
            bar.update(line, completed=last)

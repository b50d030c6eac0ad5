"""The values of a function at all draws, for block after block of rows.

Of one block of rows the values at all draws are held at once, so that their quantiles are exact; they are computed some
draws at a time, so that the function's intermediate arrays stay small too.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from isotherm.data.batches import filled
from isotherm.lib.progress import progress_bar
from isotherm.lib.types import Batch, Example, Params
from isotherm.predict.draws import Draws
from isotherm.targets.parameters import variable_names

VALUES = 2**25  # bytes of values at all draws, of one block of rows
MOST_DRAWS = 128  # computed together
WORK = 2**26  # bytes of the function's intermediate arrays, of one block of draws and rows

Function = Callable[[Params, Example], Any]


class Output(NamedTuple):
    """One array that the function returns, for one row and one draw."""

    shape: tuple[int, ...]
    dtype: np.dtype


class Task(NamedTuple):
    """The function, what it returns, and how many rows and draws go together."""

    function: Function
    outputs: dict[str, Output]
    rows: int
    draws: int


def make_task(function: Function, draws: Draws, columns: Batch, rows: int) -> Task:
    """What the function returns, and blocks in which it needs little memory."""
    example = jax.tree.map(lambda c: jax.ShapeDtypeStruct(c.shape[1:], jax.dtypes.canonicalize_dtype(c.dtype)), columns)
    params = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), jax.dtypes.canonicalize_dtype(leaf.dtype)), draws.params
    )
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
    names = ["prediction"] if jax.tree_util.all_leaves([shapes]) else variable_names(shapes)
    for name, leaf in zip(names, leaves, strict=True):
        if np.dtype(leaf.dtype).kind not in "biuf":
            raise TypeError(f"function must return real numbers, got dtype {leaf.dtype} of {name}")
    outputs = {name: Output(leaf.shape, np.dtype(leaf.dtype)) for name, leaf in zip(names, leaves, strict=True)}
    cell = max(1, sum(math.prod(output.shape) * output.dtype.itemsize for output in outputs.values()))
    work = cell + _bytes_of(program.jaxpr)
    size = _power(rows, VALUES // (draws.count * cell), WORK // work)
    return Task(function, outputs, size, _power(draws.each, MOST_DRAWS, WORK // (size * work)))


def _power(number: int, *bounds: int) -> int:
    """A power of two, so that few sizes are compiled for: the next from `number`, but within the bounds."""
    return min(1 << max(0, number - 1).bit_length(), *(1 << max(1, bound).bit_length() - 1 for bound in bounds))


def _bytes_of(program: Any) -> int:
    """Bytes of all intermediate results of a program, if none is ever freed or fused with another."""
    total = 0
    for step in program.eqns:
        total += sum(math.prod(out.aval.shape) * out.aval.dtype.itemsize for out in step.outvars)
        inner = (getattr(value, "jaxpr", value) for value in step.params.values())
        total += sum(_bytes_of(each) for each in inner if hasattr(each, "eqns"))
    return total


@partial(jax.jit, static_argnums=0)
def _values(function: Function, params: Params, examples: Batch) -> list[jax.Array]:
    """The arrays that the function returns, by (row, …, draw)."""
    by_draw = jax.vmap(function, in_axes=(0, None), out_axes=-1)
    return jax.tree.leaves(jax.vmap(by_draw, in_axes=(None, 0))(params, examples))


def blocks(
    task: Task, draws: Draws, columns: Batch, rows: int, show: bool
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """The first row of each block, and what the function returns there, by (row, …, draw); chain after chain."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    held = {n: np.empty((task.rows, *out.shape, draws.count), out.dtype) for n, out in task.outputs.items()}
    words = TextColumn("predicting"), TextColumn("rows")
    with progress_bar(show, words[0], BarColumn(), MofNCompleteColumn(), words[1], TimeRemainingColumn()) as bar:
        line = bar.add_task("", total=rows)
        for first in range(0, rows, task.rows):
            last = min(rows, first + task.rows)
            some = jax.tree.map(lambda column: filled(np.asarray(column[first:last]), task.rows), columns)  # noqa: B023
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

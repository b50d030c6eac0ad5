"""`isotherm.predict`: a function of parameters and one example, over all draws and rows, in little memory.

Of one block of rows the values at all draws are held at once, so that their quantiles are exact; they are computed some
draws at a time, so that the function's intermediate arrays stay small too.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.extend.core import Jaxpr, subjaxprs

from isotherm.data.batches import pad
from isotherm.data.on_disk.open_data import device_shape
from isotherm.diagnostics.verdict import good_chains
from isotherm.lib import arguments
from isotherm.lib.progress import progress_bar
from isotherm.lib.types import Batch, Example, Params, Results
from isotherm.lib.warn import warn
from isotherm.posterior import Posterior
from isotherm.predict.levels import with_own_levels
from isotherm.store.checkpoint import check_new
from isotherm.targets import checks, parameters
from isotherm.targets.effects import EFFECTS

if TYPE_CHECKING:
    import xarray
    import zarr

    StoredArray: TypeAlias = zarr.Array[Any]

KEPT = 2**26  # bytes of draws that are kept between blocks of rows; more are read again
PREDICTION_DRAWS = 1000  # of estimators and tables, at most: the error of their mean is 3 % of the posterior's width
VALUES = 2**25  # bytes of values at all draws, of one block of rows
MOST_DRAWS = 128  # computed together
WORK = 2**26  # bytes of the function's intermediate arrays, of one block of draws and rows
IN_MEMORY = 2**31  # bytes of log-likelihoods that are kept without a store

Function = Callable[[Params, Example], Params]  # returns any pytree of arrays


def predict(
    tree: Results,
    function: Function | Posterior,
    data: Batch,
    *,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    draws: int | None = None,
    store: str | os.PathLike[str] | None = None,
    log_likelihood: bool = False,
    init: Params | None = None,
    progress: bool = True,
) -> "xarray.Dataset":
    """Summarise `function(params, example)` over the draws, for every row of `data`: mean, deviation and quantiles.

    Memory stays bounded, whatever the number of rows and draws. Draws of chains that diverged are left out.

    Args:
        tree: what `isotherm.sample`, `resume` or `fit` returned, or draws of another sampler in the same form.
        function: of the parameters of one draw and one example, such as `jax.nn.sigmoid(example["x"] @ params)`. It
            returns an array, or any pytree of arrays. Of effects it sees the row's own levels, as `log_likelihood`
            does; one that the run had no data of is drawn from its population.
        data: a pytree of arrays with one leading length; what has a shape and can be sliced, such as a NumPy memmap or
            a Zarr array, is read block by block.
        quantiles: which, between 0 and 1.
        draws: how many draws to use at most, evenly spaced; all if not given.
        store: a folder to be made, such as "predictions.zarr", for the values at every draw: its group `predictions`
            has them by chain, draw and row (`xarray.open_datatree`).
        log_likelihood: the function is the log-likelihood of one example, or the posterior itself. The values at every
            draw become ArviZ's group `log_likelihood` of `tree`, for `arviz_stats.loo(tree)`; with `store`, of that.
        init: parameters like those of the run, if they are not a nest of dicts and lists.
        progress: whether to show a bar (on a terminal only).

    Returns:
        A dataset with `mean` and `sd` by row, and `quantiles` by quantile and row; dimensions of the function's own
        come after. If the function returns a nest of arrays, their names come first: `rate_mean`, `rate_sd` and so on.

    >>> import jax.numpy as jnp, xarray
    >>> tree = xarray.DataTree.from_dict({"posterior": xarray.Dataset({"theta": (("chain", "draw"), [[1.0, 3.0]])})})
    >>> predict(tree, lambda theta, row: theta * row["x"], {"x": np.float32([1, 10])}, progress=False)["mean"].values
    array([ 2., 20.])
    """
    levels, function = _checked(quantiles, function, log_likelihood)
    run = tree
    if EFFECTS in tree.attrs:
        run, function, data = with_own_levels(tree, function, data)
    source = Draws(run, init, None if draws is None else arguments.integer("draws", draws, 1))
    columns, rows = _columns(data)
    task = make_task(function, source, columns, rows)
    summaries = {name: Summary((rows, *output.shape), levels) for name, output in task.outputs.items()}
    values = _all_values(task, source, rows, store, log_likelihood)
    for first, block in blocks(task, source, columns, rows, progress):
        for name, array in block.items():
            summaries[name].add(first, array)
            if values is not None:
                values.add(first, name, array)
    if values is not None:
        values.finish(tree)
    return _summarised(summaries, levels)


def _checked(
    quantiles: Sequence[float], function: Function | Posterior, log_likelihood: bool
) -> tuple[list[float], Function]:
    levels = [arguments.number("quantiles", level) for level in quantiles]
    if any(not 0 <= level <= 1 for level in levels):
        raise ValueError(f"quantiles must be between 0 and 1, got {tuple(quantiles)}")
    if isinstance(function, Posterior):
        if not log_likelihood:
            raise TypeError("function must be a function (params, example); for a posterior, give log_likelihood=True")
        function = function.log_likelihood
    arguments.function("function", function, "(params, example) -> arrays")
    return levels, function


class Draws:
    """The draws of a run, read as they are needed: those of chains that did not diverge, in blocks."""

    def __init__(self, tree: Results, init: Params | None, most: int | None) -> None:
        posterior = tree["posterior"].to_dataset()
        good = np.flatnonzero(good_chains(tree))
        if not len(good):
            raise ValueError("all chains of tree diverged, so there is nothing to predict with")
        if bad := set(range(posterior.sizes["chain"])) - set(good):
            which, chains = ", ".join(map(str, sorted(bad))), len(good) + len(bad)
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
    example = jax.tree.map(lambda column: device_shape(column, 1), columns)
    try:
        hash(function)
        program, shapes = jax.make_jaxpr(function, return_shape=True)(jax.tree.map(device_shape, draws.params), example)
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
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    held = {n: np.empty((task.rows, *out.shape, draws.count), out.dtype) for n, out in task.outputs.items()}
    with progress_bar(show, "predicting", BarColumn(), MofNCompleteColumn(), "rows", TimeRemainingColumn()) as bar:
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


def _columns(data: Batch) -> tuple[Batch, int]:
    """Return the data, in which what can be sliced stays as it is, and the number of rows."""

    def column(leaf: object) -> object:
        sliceable = isinstance(getattr(leaf, "dtype", None), np.dtype) and hasattr(leaf, "__getitem__")
        return leaf if sliceable and not hasattr(leaf, "iloc") else checks.as_arrays("data", leaf)

    columns = jax.tree.map(column, data, is_leaf=lambda node: hasattr(node, "iloc"))
    leaves = jax.tree_util.tree_leaves_with_path(columns)
    return columns, checks.row_count(data, [(f"data{jax.tree_util.keystr(path)}", leaf) for path, leaf in leaves])


def _all_values(
    task: Task, draws: Draws, rows: int, store: str | os.PathLike[str] | None, log_likelihood: bool
) -> "AllValues | None":
    """Return what keeps the values at every draw, if they are asked for."""
    path = None if store is None else check_new(store)
    for name, output in task.outputs.items():
        if log_likelihood and (output.shape or output.dtype.kind != "f"):
            raise ValueError(
                f"log_likelihood=True takes a function that returns one floating number for each example, got shape "
                f"{output.shape} and dtype {output.dtype} of {name}; give posterior.log_likelihood"
            )
    needed = rows * draws.count * sum(output.dtype.itemsize for output in task.outputs.values())
    if log_likelihood and path is None and needed > IN_MEMORY:
        raise ValueError(
            f"log-likelihoods of {rows:,} rows at {draws.count:,} draws take {needed / 2**30:.1f} GB; give store= to "
            "keep them on disk, or fewer draws="
        )
    return AllValues(task, draws, rows, path, log_likelihood) if log_likelihood or path is not None else None


class Summary:
    """Mean, standard deviation and quantiles of values by (row, …, draw), block after block of rows."""

    def __init__(self, shape: tuple[int, ...], levels: list[float]) -> None:
        self.levels, self.mean, self.sd = levels, np.empty(shape), np.empty(shape)
        self.quantiles = np.empty((len(levels), *shape))

    def add(self, first: int, values: np.ndarray) -> None:
        block = slice(first, first + len(values))
        self.mean[block] = values.mean(axis=-1, dtype=np.float64)
        self.sd[block] = values.std(axis=-1, dtype=np.float64)
        if not self.levels:
            return
        ordered, last = np.sort(values, axis=-1), values.shape[-1] - 1  # NaNs come last
        unknown = np.isnan(ordered[..., -1]) if ordered.dtype.kind == "f" else False
        for place, level in enumerate(self.levels):  # linear between the two nearest draws, as numpy.quantile
            low, part = int(level * last), level * last % 1
            below, above = (ordered[..., i].astype(np.float64) for i in (low, min(low + 1, last)))
            value = below if part == 0 else below + part * (above - below)
            self.quantiles[place, block] = np.where(unknown, np.nan, value)


def _summarised(summaries: dict[str, Summary], levels: list[float]) -> "xarray.Dataset":
    import xarray

    variables: dict[str, tuple[list[str], np.ndarray]] = {}
    for name, summary in summaries.items():
        prefix = "" if list(summaries) == ["prediction"] else f"{name}_"
        dims = ["row", *_own_dims(name, summary.mean.ndim - 1)]
        variables |= {f"{prefix}mean": (dims, summary.mean), f"{prefix}sd": (dims, summary.sd)}
        variables |= {f"{prefix}quantiles": (["quantile", *dims], summary.quantiles)} if levels else {}
    return xarray.Dataset(variables, {"quantile": levels} if levels else {})


def _own_dims(name: str, ndim: int) -> list[str]:
    return [f"{name}_dim_{axis}" for axis in range(ndim)]


class AllValues:
    """The values at every draw, by (chain, draw, row, …): in memory, or in a Zarr store in blocks of rows."""

    def __init__(self, task: Task, draws: Draws, rows: int, path: Path | None, log_likelihood: bool) -> None:
        self.path, self.by_draw = path, (draws.chains, draws.each)
        self.group = "log_likelihood" if log_likelihood else "predictions"
        self.names = {name: "y" if log_likelihood and name == "prediction" else name for name in task.outputs}
        self.dims = {name: ["chain", "draw", "row", *_own_dims(name, out.ndim)] for name, out in task.outputs.items()}
        self.labels = {name: draws.dataset[name].values for name in ("chain", "draw")}
        self.arrays: dict[str, np.ndarray | StoredArray] = {}
        shapes = {name: (*self.by_draw, rows, *output.shape) for name, output in task.outputs.items()}
        if path is None:
            self.arrays |= {name: np.empty(shapes[name], output.dtype) for name, output in task.outputs.items()}
            return
        import zarr

        node = zarr.create_group(path).create_group(self.group)
        for name, values in self.labels.items():
            node.create_array(name, data=values, dimension_names=[name])
        for name, output in task.outputs.items():
            self.arrays[name] = node.create_array(
                self.names[name],
                shape=shapes[name],
                chunks=(*self.by_draw, task.rows, *(max(1, n) for n in output.shape)),
                dtype=output.dtype,
                dimension_names=self.dims[name],
            )

    def add(self, first: int, name: str, values: np.ndarray) -> None:
        """Keep values by (row, …, draw)."""
        by_draw = np.moveaxis(values, -1, 0).reshape(*self.by_draw, *values.shape[:-1])
        self.arrays[name][:, :, first : first + len(values)] = by_draw

    def finish(self, tree: Results) -> None:
        """Make log-likelihoods a group of the tree; those of a store are loaded lazily."""
        import xarray

        if self.path is None:
            arrays = {self.names[name]: (self.dims[name], values) for name, values in self.arrays.items()}
            found = xarray.Dataset(arrays, self.labels)
        else:
            import zarr

            with warnings.catch_warnings():  # about metadata that other libraries may ignore, and read file after file
                warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
                zarr.consolidate_metadata(self.path)
            found = xarray.open_zarr(self.path, group=self.group, chunks=None)
        if self.group == "log_likelihood":
            tree["log_likelihood"] = xarray.DataTree(found)

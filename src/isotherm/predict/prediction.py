"""`isotherm.predict`: a function of parameters and one example, over all draws and rows, in little memory."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

from isotherm.lib import arguments
from isotherm.lib.types import Batch, Params, Results
from isotherm.posterior import Posterior
from isotherm.predict.blocks import Draws, Function, Task, blocks, make_task
from isotherm.store.folder import check_new
from isotherm.targets import checks

if TYPE_CHECKING:
    import xarray
    import zarr

    StoredArray: TypeAlias = zarr.Array[Any]
IN_MEMORY = 2**31  # bytes of log-likelihoods that are kept without a store


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
        tree: what `isotherm.sample`, `isotherm.resume` or `isotherm.fit` returned, or draws of another sampler in the
            same form.
        function: of the parameters of one draw and one example, such as `jax.nn.sigmoid(example["x"] @ params)`. It
            returns an array, or any pytree of arrays.
        data: a pytree of arrays with one leading length; anything with a shape that can be sliced, such as a NumPy
            memmap or a Zarr array, is read block by block.
        quantiles: which, between 0 and 1.
        draws: how many draws to use at most, evenly spaced; all if not given.
        store: a folder to be made, such as "predictions.zarr", for the values at every draw: its group `predictions`
            has them by chain, draw and row (`xarray.open_datatree`).
        log_likelihood: the function is the log-likelihood of one example, as in `posterior.log_likelihood` (or give the
            posterior itself). The values at every draw become ArviZ's group `log_likelihood` of `tree`, so that
            `arviz_stats.loo(tree)` works; with `store`, that group is kept there.
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
    levels = [arguments.number("quantiles", level) for level in quantiles]
    if any(not 0 <= level <= 1 for level in levels):
        raise ValueError(f"quantiles must be between 0 and 1, got {tuple(quantiles)}")
    if isinstance(function, Posterior):
        if not log_likelihood:
            raise TypeError("function must be a function (params, example); for a posterior, give log_likelihood=True")
        function = function.log_likelihood
    arguments.function("function", function, "(params, example) -> arrays")
    source = Draws(tree, init, None if draws is None else arguments.integer("draws", draws, 1))
    columns, rows = _columns(data)
    task = make_task(function, source, columns, rows)
    path = None if store is None else check_new(store)
    if log_likelihood:
        _check_log_likelihood(task, source, rows, path is not None)
    summaries = {name: Summary((rows, *output.shape), levels) for name, output in task.outputs.items()}
    values = AllValues(task, source, rows, path, log_likelihood) if log_likelihood or path is not None else None
    for first, block in blocks(task, source, columns, rows, progress):
        for name, array in block.items():
            summaries[name].add(first, array)
            if values is not None:
                values.add(first, name, array)
    if values is not None:
        found = values.dataset()
        if log_likelihood:
            import xarray

            tree["log_likelihood"] = xarray.DataTree(found)
    return _summarised(summaries, levels)


def _columns(data: Batch) -> tuple[Batch, int]:
    """Return the data, in which what can be sliced stays as it is, and the number of rows."""

    def column(leaf: object) -> object:
        sliceable = isinstance(getattr(leaf, "dtype", None), np.dtype) and hasattr(leaf, "__getitem__")
        return leaf if sliceable and not hasattr(leaf, "iloc") else checks.as_arrays("data", leaf)

    columns = jax.tree.map(column, data, is_leaf=lambda node: hasattr(node, "iloc"))
    leaves = jax.tree_util.tree_leaves_with_path(columns)
    return columns, checks.row_count(data, [(f"data{jax.tree_util.keystr(path)}", leaf) for path, leaf in leaves])


def _check_log_likelihood(task: Task, draws: Draws, rows: int, stored: bool) -> None:
    for name, output in task.outputs.items():
        if output.shape or output.dtype.kind != "f":
            raise ValueError(
                f"log_likelihood=True takes a function that returns one floating number for each example, got shape "
                f"{output.shape} and dtype {output.dtype} of {name}; give posterior.log_likelihood"
            )
    needed = rows * draws.count * sum(output.dtype.itemsize for output in task.outputs.values())
    if not stored and needed > IN_MEMORY:
        raise ValueError(
            f"log-likelihoods of {rows:,} rows at {draws.count:,} draws take {needed / 2**30:.1f} GB; give store= to "
            "keep them on disk, or fewer draws="
        )


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
    """The values at every draw, by (chain, draw, row, …): in memory, or in a Zarr store whose chunks are blocks of
    rows."""

    def __init__(self, task: Task, draws: Draws, rows: int, path: Path | None, log_likelihood: bool) -> None:
        self.path, self.by_draw = path, (draws.chains, draws.each)
        self.group = "log_likelihood" if log_likelihood else "predictions"
        self.names = {name: "y" if log_likelihood and name == "prediction" else name for name in task.outputs}
        self.dims = {name: ["chain", "draw", "row", *_own_dims(name, out.ndim)] for name, out in task.outputs.items()}
        counted = {"chain": draws.chains, "draw": draws.each}
        labels = draws.dataset.coords
        self.labels = {name: labels[name].values if name in labels else np.arange(n) for name, n in counted.items()}
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

    def dataset(self) -> "xarray.Dataset":
        """Return the values; those of a store can be read as a whole from here on, and are loaded lazily."""
        import xarray

        if self.path is None:
            arrays = {self.names[name]: (self.dims[name], values) for name, values in self.arrays.items()}
            return xarray.Dataset(arrays, self.labels)
        import zarr

        with warnings.catch_warnings():  # about metadata that other libraries may ignore, and read file after file
            warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
            zarr.consolidate_metadata(self.path)
        stored: xarray.Dataset = xarray.open_zarr(self.path, group=self.group, chunks=None)
        return stored

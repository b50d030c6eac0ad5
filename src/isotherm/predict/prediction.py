"""`isotherm.predict`: a function of parameters and one example, over all draws and rows, in little memory."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from isotherm.lib import arguments
from isotherm.lib.types import Batch, Params, Results
from isotherm.posterior import Posterior
from isotherm.predict.blocks import Function, Task, blocks, make_task
from isotherm.predict.draws import Draws
from isotherm.predict.kept import Kept, Stored, Summary, dataset_of
from isotherm.store.folder import check_new
from isotherm.targets import checks

if TYPE_CHECKING:
    import xarray

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
    """Mean, standard deviation and quantiles of `function(params, example)` over the draws, for every row of `data`.

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
    summaries = {name: Summary(rows, output, levels) for name, output in task.outputs.items()}
    keepers: list[Any] = []
    if path is not None:
        keepers.append(Stored(path, "log_likelihood" if log_likelihood else "predictions", task, source, rows))
    elif log_likelihood:
        keepers.append(Kept(task, source, rows))
    for first, values in blocks(task, source, columns, rows, progress):
        for name, array in values.items():
            summaries[name].add(first, array)
            for keeper in keepers:
                keeper.add(first, name, array)
    if log_likelihood:
        import xarray

        tree["log_likelihood"] = xarray.DataTree(keepers[0].dataset())
    elif keepers:
        keepers[0].dataset()
    return dataset_of(summaries, levels)


def _columns(data: Batch) -> tuple[Batch, int]:
    """The data, in which what can be sliced stays as it is, and the number of rows."""

    def column(leaf: Any) -> Any:
        sliceable = isinstance(getattr(leaf, "dtype", None), np.dtype) and hasattr(leaf, "__getitem__")
        return leaf if sliceable and not hasattr(leaf, "iloc") else checks.as_arrays("data", leaf)

    columns = jax.tree.map(column, data, is_leaf=lambda node: hasattr(node, "iloc"))
    names = [f"data{jax.tree_util.keystr(path)}" for path, _ in jax.tree_util.tree_leaves_with_path(columns)]
    leaves = jax.tree.leaves(columns)
    if not leaves:
        raise ValueError(f"data holds no array, got {data!r}")
    for name, leaf in zip(names, leaves, strict=True):
        if leaf.dtype.kind not in "biuf":
            raise TypeError(f"{name} must hold numbers, got dtype {leaf.dtype}; encode it as numbers first")
        if not np.shape(leaf):
            raise ValueError(f"{name} must have one row an example, got the scalar {leaf}")
    lengths = {name: leaf.shape[0] for name, leaf in zip(names, leaves, strict=True)}
    if len(set(lengths.values())) > 1:
        each = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"data arrays must have the same number of rows, but {each}")
    return columns, leaves[0].shape[0]


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

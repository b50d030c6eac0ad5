"""What is kept of the values of a block of rows, by (row, …, draw): summaries of them, or all of them."""

import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from isotherm.predict.blocks import Output, Task
from isotherm.predict.draws import Draws

if TYPE_CHECKING:
    import xarray
    import zarr

ROW = "row"


class Summary:
    """Mean, standard deviation and quantiles of values by (row, …, draw), block after block of rows."""

    def __init__(self, rows: int, output: Output, levels: list[float]) -> None:
        self.levels = levels
        self.mean, self.sd = (np.empty((rows, *output.shape)) for _ in range(2))
        self.quantiles = np.empty((len(levels), rows, *output.shape))

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


def dataset_of(summaries: dict[str, Summary], levels: list[float]) -> "xarray.Dataset":
    import xarray

    variables: dict[str, Any] = {}
    for name, summary in summaries.items():
        bare = list(summaries) == ["prediction"]
        prefix = "" if bare else f"{name}_"
        dims = [ROW, *_own_dims(name, summary.mean.ndim - 1)]
        variables |= {f"{prefix}mean": (dims, summary.mean), f"{prefix}sd": (dims, summary.sd)}
        variables |= {f"{prefix}quantiles": (["quantile", *dims], summary.quantiles)} if levels else {}
    return xarray.Dataset(variables, {"quantile": levels} if levels else {})


def _own_dims(name: str, ndim: int) -> list[str]:
    return [f"{name}_dim_{axis}" for axis in range(ndim)]


def _labels(draws: Draws) -> dict[str, np.ndarray]:
    """The labels of the draws that were used, by chain and by draw."""
    coordinates = draws.dataset.coords
    sizes = {"chain": draws.chains, "draw": draws.each}
    return {name: coordinates[name].values if name in coordinates else np.arange(n) for name, n in sizes.items()}


def _by_draw(values: np.ndarray, draws: Draws) -> np.ndarray:
    """(row, …, draw) as (chain, draw, row, …)."""
    return np.moveaxis(values, -1, 0).reshape(draws.chains, draws.each, *values.shape[:-1])


class Kept:
    """The values at every draw, in memory."""

    def __init__(self, task: Task, draws: Draws, rows: int) -> None:
        self.draws = draws
        self.values = {
            name: np.empty((draws.chains, draws.each, rows, *output.shape), output.dtype)
            for name, output in task.outputs.items()
        }

    def add(self, first: int, name: str, values: np.ndarray) -> None:
        self.values[name][:, :, first : first + len(values)] = _by_draw(values, self.draws)

    def dataset(self) -> "xarray.Dataset":
        import xarray

        dims = ["chain", "draw", ROW]
        arrays = {_stored_name(name): (dims, values) for name, values in self.values.items()}
        return xarray.Dataset(arrays, _labels(self.draws))


class Stored:
    """The values at every draw, in a Zarr store whose chunks are blocks of rows."""

    def __init__(self, path: os.PathLike[str], group: str, task: Task, draws: Draws, rows: int) -> None:
        import zarr

        self.path, self.group, self.draws = path, group, draws
        root = zarr.create_group(path)
        node, self.arrays = root.create_group(group), dict[str, "zarr.Array[Any]"]()
        for name, values in _labels(draws).items():
            node.create_array(name, data=values, dimension_names=[name])
        for name, output in task.outputs.items():
            stored = _stored_name(name) if group == "log_likelihood" else name
            self.arrays[name] = node.create_array(
                stored,
                shape=(draws.chains, draws.each, rows, *output.shape),
                chunks=(draws.chains, draws.each, task.rows, *(max(1, n) for n in output.shape)),
                dtype=output.dtype,
                dimension_names=["chain", "draw", ROW, *_own_dims(name, len(output.shape))],
            )

    def add(self, first: int, name: str, values: np.ndarray) -> None:
        self.arrays[name][:, :, first : first + len(values)] = _by_draw(values, self.draws)

    def dataset(self) -> "xarray.Dataset":
        """The store, readable as a whole from here on, and loaded lazily."""
        import xarray
        import zarr

        with warnings.catch_warnings():  # about metadata that other libraries may ignore, and read file after file
            warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
            zarr.consolidate_metadata(self.path)
        return xarray.open_zarr(self.path, group=self.group, chunks=None)


def _stored_name(name: str) -> str:
    return "y" if name == "prediction" else name

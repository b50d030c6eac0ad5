"""Rows spread over devices: which device holds which, and what a device takes of a batch.

Rows keep their numbers, and every device draws the same ones, so a batch is what it would be on one device. Each device
evaluates those rows of it that it holds, and what is summed over devices is a vector as long as the parameters, not the
rows. How many of a batch a device holds changes from batch to batch, and a compiled step has a fixed capacity: such
that hardly any batch has more on one device (`OVERFLOW`). If one does, its force is NaN, and the chains repeat the
step with capacity for all (run/on_devices.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jax.tree_util import register_dataclass

from isotherm.data.batches import AliasTable, Batches, gather, pad
from isotherm.data.on_disk.column import Column
from isotherm.lib import arguments
from isotherm.lib.types import Array, Batch, Bool, Float, Int, RandomKey, Scalar

CHAINS, ROWS = "chains", "rows"  # the axes of the mesh
OVERFLOW = 1e-13  # the largest probability that a batch has more rows on a device than its capacity

T = TypeVar("T")


@dataclass(frozen=True)
class BatchShard:
    """Which rows of a batch are here, if others are on other devices along an axis of a mesh.

    The batch has `rows` rows in all, of which these have the numbers `places`; they count where `counted` says so.
    `unit` is 1, or NaN where there are more than the device has capacity for.
    """

    axis: str
    rows: int
    places: Int[Array, " n"]
    counted: Bool[Array, " n"]
    unit: Scalar

    def total(self, here: Array) -> Array:
        """Return the sum of what each device has."""
        total: Array = jax.lax.psum(self.unit.astype(here.dtype) * here, self.axis)
        return total


@register_dataclass
@dataclass(frozen=True)
class Shards:
    """The rows on the devices along the mesh's axis of rows; inside the compiled loop, those on this device.

    `bounds` are the number of the first row and how many there are, for each device. Columns are filled up to one
    length. `largest_share` is the probability that a row of a batch is on the device where most are.
    """

    columns: Batch
    bounds: Int[Array, "devices 2"]
    largest_share: float = field(metadata={"static": True})

    @property
    def mesh(self) -> Mesh:
        assert isinstance(self.bounds.sharding, NamedSharding)
        assert isinstance(self.bounds.sharding.mesh, Mesh)
        return self.bounds.sharding.mesh

    def capacity(self, rows: int) -> int:
        """Return how many rows of a batch of `rows` each device can take."""
        if self.largest_share >= 1:
            return rows
        from scipy.special import bdtrc

        counts = np.arange(rows + 1)
        return int(np.argmax(bdtrc(counts, rows, self.largest_share) < OVERFLOW)) or 1

    def with_capacity_for_all(self) -> "Shards":
        return replace(self, largest_share=1.0)

    def take(
        self, key: RandomKey, batches: Batches, table: AliasTable | None
    ) -> tuple[Batch, Float[Array, " n"] | None, BatchShard]:
        """Return the rows of a batch that are here, how often each counts, and which of the batch they are."""
        first, length = self.bounds[0, 0], self.bounds[0, 1]
        if batches.is_everything:
            numbers = jnp.arange(jax.tree.leaves(self.columns)[0].shape[0])
            part = BatchShard(ROWS, batches.population, first + numbers, numbers < length, jnp.ones(()))
            return self.columns, None, part
        rows = batches.row_numbers(key, table)
        local = rows - first.astype(rows.dtype)
        is_here = (local >= 0) & (local < length.astype(rows.dtype))
        count, capacity = is_here.sum(), self.capacity(batches.size)
        (places,) = jnp.nonzero(is_here, size=capacity, fill_value=0)
        counted = jnp.arange(capacity) < count
        # Where there are fewer than the capacity, the first is evaluated again and does not count.
        places = jnp.where(counted, places, places[0])
        local = jnp.clip(local[places], 0, length.astype(rows.dtype) - 1)
        weights = None if table is None else table.weights[rows[places]]
        part = BatchShard(ROWS, batches.size, places, counted, jnp.where(count > capacity, jnp.nan, 1.0))
        return gather(local, self.columns), weights, part


def make_mesh(devices: int | Sequence[jax.Device] | None, over: str, chains: int) -> Mesh | None:
    """Return the devices by (chains, rows): those given, the first `devices`, or all; None for the one JAX uses anyway.

    Each process has the same number of them and holds rows of its own. Within a process `over` says what is spread over
    its devices: "chains", as equally as can be, or "rows".
    """
    if over not in (CHAINS, ROWS):
        raise ValueError(f'spread must be "chains" or "rows", got {over!r}')
    by_process = _devices(devices)
    if over == ROWS:
        arranged = by_process.reshape(1, -1)
    else:
        chains_of_one = -(-chains // by_process.shape[1])
        arranged = by_process[:, : -(-chains // chains_of_one)].T
    if arranged.size == 1 and arranged.item() == jnp.zeros(()).device:
        return None
    return Mesh(arranged, (CHAINS, ROWS), axis_types=(AxisType.Auto,) * 2)


def _devices(wanted: int | Sequence[jax.Device] | None) -> np.ndarray:
    """Return the devices to be used, by process."""
    processes = range(jax.process_count())
    by_process = [[device for device in jax.devices() if device.process_index == process] for process in processes]
    there = min(map(len, by_process))
    if wanted is None or isinstance(wanted, int | np.integer):
        count = there if wanted is None else arguments.integer("devices", wanted, 1)
        if count > there:
            raise ValueError(f"devices must be at most {there}, the number of devices that JAX has, got {count}")
        return np.array([some[:count] for some in by_process], dtype=object)
    given = list(wanted)
    if not given or not all(isinstance(device, jax.Device) for device in given):
        raise TypeError(f"devices must be a number, or devices such as jax.devices() has, got {wanted!r}")
    if len(set(given)) < len(given):
        raise ValueError(f"devices must be different from each other, got {given}")
    if len(processes) > 1:
        raise ValueError("devices must be a number where there are several processes: of the devices of each")
    return np.array([given], dtype=object)


def shard(mesh: Mesh, data: Batch, rows: list[int], table: AliasTable | None) -> Shards:
    """Return the rows on the devices of a mesh. The processes have `rows`, one after the other, and this one has
    `data`; `table` are the probabilities with which rows are drawn, if these are not equal."""
    places = mesh.shape[ROWS] // len(rows)
    if min(rows) < places:
        raise ValueError(f"data must have at least one row for each of {places} devices, got {min(rows)} rows")
    each = [some // places + (place < some % places) for some in rows for place in range(places)]  # as equal as can be
    starts, longest = np.concatenate([[0], np.cumsum(each)]), max(each)
    mine = starts - starts[places * jax.process_index()]

    def block(column: np.ndarray | Column, place: int) -> np.ndarray:
        return pad(np.asarray(column[mine[place] : mine[place + 1]]), longest)

    columns = jax.tree.map(lambda column: _assembled(mesh, lambda place: block(column, place)), data)
    bounds = np.stack([starts[:-1], each], axis=1).astype(np.int32)
    largest_share = longest / sum(each)
    if table is not None:
        probabilities = 1 / np.asarray(table.weights, np.float64)
        largest_share = float(np.add.reduceat(probabilities, starts[:-1]).max() / probabilities.sum())
    return Shards(columns, _assembled(mesh, lambda place: bounds[place : place + 1]), largest_share)


def _assembled(mesh: Mesh, block: Callable[[int], np.ndarray]) -> Array:
    """Return an array by rows: on each device of this process, the block of its place along the axis of rows."""
    parts = [
        jax.device_put(block(place), device, may_alias=False)
        for (_, place), device in np.ndenumerate(mesh.devices)
        if device.process_index == jax.process_index()
    ]
    shape = (mesh.shape[ROWS] * parts[0].shape[0], *parts[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, NamedSharding(mesh, PartitionSpec(ROWS)), parts)


def replicated(mesh: Mesh, tree: T) -> T:
    """Return the arrays of a tree on every device; plain numbers stay what they are."""

    def everywhere(leaf: object) -> object:
        if not isinstance(leaf, jax.Array):
            return leaf
        here = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
        parts = [jax.device_put(leaf, device) for device in here]
        return jax.make_array_from_single_device_arrays(leaf.shape, NamedSharding(mesh, PartitionSpec()), parts)

    there: T = jax.tree.map(everywhere, tree)
    return there

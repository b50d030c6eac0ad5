"""From a user's arguments to a `Run`: checked, flattened, with the data on the device."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import ArrayLike

from isotherm.data import processes
from isotherm.data.batches import AliasTable, Batches, make_table, place
from isotherm.data.on_disk.column import Column
from isotherm.data.on_disk.open_data import on_disk
from isotherm.data.sharded import CHAINS, ROWS, Shards, make_mesh, shard
from isotherm.lib import arguments
from isotherm.lib.types import Batch, Float, Json, Params
from isotherm.posterior import Posterior
from isotherm.samplers.base import Sampler, check_sampler
from isotherm.targets import checks
from isotherm.targets.evaluation import Evaluation
from isotherm.targets.parameters import MOST_SEED, initial_positions
from isotherm.targets.target import Target
from isotherm.targets.user import with_defaults

AnySampler: TypeAlias = Sampler[Any]  # whatever its state
CHAIN_LIMIT = 2**16  # far more than anyone runs: a slip of the keyboard, not a wish


@dataclass(frozen=True)
class RunSettings:
    """Batches, chains and devices of a run, as in `isotherm.sample`; or the table in place of `probabilities`."""

    batch_size: int | None = None
    replace: bool = True
    chains: int = 4
    seed: int = 0
    name: str | None = None
    probabilities: ArrayLike | AliasTable | None = None
    devices: int | Sequence[jax.Device] | None = None
    spread: str = CHAINS
    keep: int | str | None = None  # of how many levels of each effect draws are kept, as in `isotherm.fit`

    def checked(self) -> "RunSettings":
        """Return them, unless one cannot be right, whatever the data."""
        arguments.integer("chains", self.chains, 1, CHAIN_LIMIT)
        arguments.integer("seed", self.seed, 0, MOST_SEED)
        if self.keep is not None and self.keep != "auto":
            arguments.integer("keep", self.keep, 1)
        if not isinstance(self.replace, bool | np.bool_):
            raise TypeError(f"replace must be True or False, got {self.replace!r}")
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"name must be a string, got {self.name!r}")
        return self

    def table(self, target: Target) -> AliasTable | None:
        """Return the probabilities with which rows are drawn, if not equal ones."""
        if self.probabilities is None:
            return target.row_probabilities
        if isinstance(self.probabilities, AliasTable):
            return self.probabilities
        if target.row_probabilities is not None:
            raise ValueError(
                "probabilities must not be given with an anchored posterior, which has its own; leave them out"
            )
        return make_table(processes.joined(np.array(self.probabilities, np.float64)))

    def mesh(self, data: Batch) -> Mesh | None:
        """Return the devices that chains or rows are spread over, if there are several. Data on disk are read as they
        are needed by one device, unless more are asked for, which then hold them in their memory."""
        by_default = self.devices is None and self.spread == CHAINS
        if self.devices is None and jax.device_count() == 1 and self.spread in (CHAINS, ROWS):
            return None
        mesh = make_mesh(self.devices, self.spread, self.chains)
        return None if by_default and not processes.several() and on_disk(data) else mesh


class Run(NamedTuple):
    """All that determines the draws of a run; how many there are is its plan's."""

    sampler: AnySampler
    evaluation: Evaluation
    data: Batch
    starts: Float[np.ndarray, "chains d"]
    seed: int
    name: str | None
    notes: Json  # for the attributes of the results: what was chosen for this run, and why
    shards: Shards | None  # the data on several devices, if it goes on several

    @property
    def chains(self) -> int:
        return len(self.starts)

    @property
    def batches(self) -> Batches:
        return self.evaluation.batches


def assemble(
    posterior: Posterior,
    sampler: AnySampler,
    data: Batch | None,
    init: Params | None,
    settings: RunSettings,
    notes: Json | None = None,
) -> Run:
    """Check everything that can be wrong, in words, and make the run. Several processes each have their own rows."""
    check_sampler(sampler)
    settings.checked()
    target, data, init = with_defaults(posterior, data, init)
    data, target = checks.checked_data(data), target.keeping(settings.keep)
    counts, table = processes.row_counts(data), settings.table(target)
    whole = target.takes_all_rows and settings.batch_size is None
    rows, replace, seed = sum(counts), bool(settings.replace) and not whole, int(settings.seed)
    columns = [f"{name}: {array.dtype} of shape (…, {array.shape[1:]})" for name, array in checks.named("data", data)]
    checks.check_row_count(rows)
    if table is not None:
        checks.check_table(table, rows, replace)
    batches = Batches(rows, checks.chosen_batch_size(target, settings.batch_size), replace)
    evaluation, starts = initial_positions(target, data, init, batches, table, int(settings.chains), seed)
    mesh, shards = settings.mesh(data), None
    if mesh is None:
        data = jax.tree.map(place, data)
    else:
        data = jax.tree.map(as_on_device, data)
        shards = shard(mesh, data, counts, table)
    processes.check_same(
        {
            "data": "; ".join(columns),
            "sampler": sampler,
            "seed": seed,
            "batch_size": batches.size,
            "replace": replace,
            "init": hashlib.sha256(starts.tobytes()).hexdigest(),
        }
    )
    return Run(sampler, evaluation, data, starts, seed, settings.name, notes or {}, shards)


def as_on_device(column: np.ndarray | jax.Array | Column) -> np.ndarray | Column:
    """Return a column on the host, in the dtype that it has on a device."""
    dtype = jax.dtypes.canonicalize_dtype(column.dtype)
    return column.astype(dtype) if isinstance(column, Column) else np.asarray(column).astype(dtype, copy=False)

"""From a user's arguments to a `Run`: checked, flattened, with the data on the device."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import ArrayLike

from isotherm.data import processes
from isotherm.data.alias_table import AliasTable, make_table
from isotherm.data.batches import Batches, placed
from isotherm.data.on_disk import Column, on_disk
from isotherm.data.sharded import CHAINS, ROWS, Shards, make_mesh, shard
from isotherm.lib import arguments
from isotherm.lib.types import Batch, Float, Json, Params
from isotherm.posterior import Posterior
from isotherm.samplers.base import Sampler, check_sampler
from isotherm.targets import checks
from isotherm.targets.evaluation import Evaluation
from isotherm.targets.parameters import MOST_SEED, initial_positions
from isotherm.targets.target import Target, with_defaults

MOST_CHAINS = 2**16  # far more than anyone runs: a slip of the keyboard, not a wish


class Run(NamedTuple):
    """All that determines the draws of a run; how many there are is its plan's."""

    sampler: Sampler[Any]
    evaluation: Evaluation
    data: Batch
    starts: Float[np.ndarray, "chains d"]
    seed: int
    name: str | None = None
    notes: Json = {}  # noqa: RUF012  # for the attributes of the results: what was chosen for this run, and why
    shards: Shards | None = None  # the data on several devices, if it goes on several

    @property
    def chains(self) -> int:
        return len(self.starts)

    @property
    def batches(self) -> Batches:
        return self.evaluation.batches


def make_run(
    posterior: Posterior,
    sampler: Sampler[Any],
    data: Batch,
    init: Params | None,
    *,
    batch_size: int | None,
    replace: bool,
    chains: int,
    seed: int,
    name: str | None,
    notes: Json | None = None,
    probabilities: ArrayLike | None = None,
    table: AliasTable | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    over: str = CHAINS,
) -> Run:
    """Check everything that can be wrong, in words, before the loop is compiled. `table` is what was made of
    `probabilities` before, in a run that is resumed. Where there are several processes, each has its own rows."""

    def settings_and_data() -> tuple[int, int, Target, Batch, Params | None]:
        check_sampler(sampler)
        integers = arguments.integer("chains", chains, 1, MOST_CHAINS), arguments.integer("seed", seed, 0, MOST_SEED)
        if not isinstance(replace, bool | np.bool_):
            raise TypeError(f"replace must be True or False, got {replace!r}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a string, got {name!r}")
        model, given, begin = with_defaults(posterior, data, init)
        return *integers, model, checks.checked_data(given), begin

    chains, seed, posterior, data, init = processes.agreed(settings_and_data)
    rows = processes.row_counts(data)
    if probabilities is not None:
        checks.check_no_table(posterior)
        table = make_table(processes.joined(processes.agreed(lambda: np.array(probabilities, np.float64))))
    elif table is None:
        table = posterior.row_probabilities

    def run() -> Run:
        checks.check_row_count(sum(rows))
        if table is not None:
            checks.check_table(table, sum(rows), bool(replace))
        batches = Batches(sum(rows), checks.chosen_batch_size(posterior, batch_size), bool(replace))
        evaluation, starts = initial_positions(posterior, data, init, batches, table, chains, seed)
        made = Run(sampler, evaluation, data, starts, seed, name, notes or {})
        mesh = mesh_for(data, devices, over, chains)
        if mesh is None:
            return made._replace(data=jax.tree.map(placed, data))
        return made._replace(data=(here := jax.tree.map(on_host, data)), shards=shard(mesh, here, rows, table))

    made = processes.agreed(run)
    columns = [f"{name}: {array.dtype} of shape (…, {array.shape[1:]})" for name, array in checks.named("data", data)]
    processes.check_same(
        {
            "data": "; ".join(columns),
            "sampler": sampler,
            "seed": seed,
            "batch_size": made.batches.size,
            "replace": made.batches.replace,
            "init": hashlib.sha256(made.starts.tobytes()).hexdigest(),
        }
    )
    return made


def mesh_for(data: Batch, devices: int | Sequence[jax.Device] | None, over: str, chains: int) -> Mesh | None:
    """The devices that chains or rows are spread over, if there are several. Data on disk are read as they are needed
    by one device, unless more are asked for, which then hold them in their memory."""
    if devices is None and jax.device_count() == 1 and over in (CHAINS, ROWS):
        return None
    mesh = make_mesh(devices, over, chains)
    unasked = devices is None and over == CHAINS and not processes.several()
    return None if unasked and on_disk(data) else mesh


def on_host(column: Any) -> Any:
    """A column as the devices will see it."""
    if isinstance(column, Column):
        return column.astype(jax.dtypes.canonicalize_dtype(column.dtype))
    return np.asarray(column).astype(jax.dtypes.canonicalize_dtype(column.dtype), copy=False)

"""From a user's arguments to a `Run`: checked, flattened, with the data on the device."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from numpy.typing import ArrayLike

from isotherm import arguments, processes
from isotherm.alias import AliasTable, make_table
from isotherm.batches import Batches, placed
from isotherm.columns import Column, on_disk
from isotherm.posterior import Posterior, opened
from isotherm.run import checks
from isotherm.run.evaluation import Evaluation
from isotherm.samplers.base import Sampler, check_sampler
from isotherm.shards import CHAINS, Shards, make_mesh, spread
from isotherm.types import Batch, Float, Json, Params, RandomKey, Vector

MOST_CHAINS = 2**16  # far more than anyone runs: a slip of the keyboard, not a wish
MOST_SEED = 2**32 - 1  # JAX makes keys of 32 bits unless it has 64


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

    def settings_and_data() -> tuple[int, int, Posterior, Batch, Params | None]:
        check_sampler(sampler)
        integers = arguments.integer("chains", chains, 1, MOST_CHAINS), arguments.integer("seed", seed, 0, MOST_SEED)
        if not isinstance(replace, bool | np.bool_):
            raise TypeError(f"replace must be True or False, got {replace!r}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a string, got {name!r}")
        model, given, begin = opened(posterior, data, init)
        return *integers, model, checks.checked_data(given), begin

    chains, seed, posterior, data, init = processes.agreed(settings_and_data)
    rows = processes.row_counts(data)
    if probabilities is not None:
        checks.check_no_table(posterior)
        table = make_table(processes.joined(processes.agreed(lambda: np.array(probabilities, np.float64))))
    elif table is None:
        table = posterior.table

    def run() -> Run:
        checks.check_row_count(sum(rows))
        if table is not None:
            checks.check_table(table, sum(rows), bool(replace))
        batches = Batches(sum(rows), checks.chosen_batch_size(posterior, batch_size), bool(replace))
        evaluation, starts = started(posterior, data, init, batches, table, chains, seed)
        made = Run(sampler, evaluation, data, starts, seed, name, notes or {})
        mesh = mesh_for(data, devices, over, chains)
        if mesh is None:
            return made._replace(data=jax.tree.map(placed, data))
        return made._replace(data=(here := jax.tree.map(on_host, data)), shards=spread(mesh, here, rows, table))

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


def started(
    posterior: Posterior,
    data: Batch,
    init: Params | None,
    batches: Batches,
    table: AliasTable | None,
    chains: int,
    seed: int,
) -> tuple[Evaluation, Float[np.ndarray, "chains d"]]:
    """What batches say of the posterior, and where the chains start."""
    given = posterior.typical_params(seed, chains) if init is None else starting_points(init, chains, seed)
    for params in given:
        checks.check_params(params)
    checks.check_model(posterior, given[0], data)
    dtype, unravel = flattening(given[0])
    flat = [np.concatenate([np.ravel(leaf).astype(dtype) for leaf in jax.tree.leaves(params)]) for params in given]
    positions = [np.asarray(posterior.position(each)) for each in flat]
    starts = np.stack(positions * (chains // len(positions)))  # one start for all chains, or one for each
    evaluation = Evaluation(posterior, unravel, batches, table)
    checks.check_derivatives(evaluation, starts[0], data)
    return evaluation, starts


def mesh_for(data: Batch, devices: int | Sequence[jax.Device] | None, over: str, chains: int) -> Mesh | None:
    """The devices that chains or rows are spread over, if there are several. Data on disk are read as they are needed
    by one device, unless more are asked for, which then hold them in their memory."""
    mesh = make_mesh(devices, over, chains)
    unasked = devices is None and over == CHAINS and not processes.several()
    return None if unasked and on_disk(data) else mesh


def on_host(column: Any) -> Any:
    """A column as the devices will see it."""
    if isinstance(column, Column):
        return column.astype(jax.dtypes.canonicalize_dtype(column.dtype))
    return np.asarray(column).astype(jax.dtypes.canonicalize_dtype(column.dtype), copy=False)


def starting_points(init: Params | Callable[[RandomKey], Params], chains: int, seed: int) -> list[Params]:
    """The parameters that all chains start from, or what `init(key)` returns, one for each chain."""
    if not is_function(init):
        return [checks.as_arrays("init", init)]
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 2**31), chains)  # no step has this number
    try:
        return [checks.as_arrays("init(key)", init(key)) for key in keys]
    except Exception as error:
        raise ValueError(f"init(key) must return parameters to start from, it raised {error!r}") from error


def is_function(init: Any) -> bool:
    """Whether `init` is to be called. A module with parameters inside (Equinox's, say) may be callable too, but JAX
    sees its arrays; of a function it sees nothing but the function."""
    return callable(init) and (isinstance(init, jax.tree_util.Partial) or jax.tree_util.all_leaves([init]))


def flattening(params: Params) -> tuple[Any, Callable[[Vector], Params]]:
    """The dtype of flat parameters, and the way back; nothing is computed, so nothing is compiled."""
    unravels = []

    def raveled(params: Params) -> Vector:
        position, unravel = ravel_pytree(params)
        unravels.append(unravel)
        return position

    return jax.eval_shape(raveled, jax.tree.map(jnp.asarray, params)).dtype, unravels[0]

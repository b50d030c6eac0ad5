"""Where chains start: the user's parameters, or what draws them, as flat positions of a target."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from isotherm.data.alias_table import AliasTable
from isotherm.data.batches import Batches
from isotherm.lib.types import Batch, Float, Params, RandomKey, Vector
from isotherm.targets import checks
from isotherm.targets.evaluation import Evaluation
from isotherm.targets.target import Target

MOST_SEED = 2**32 - 1  # JAX makes keys of 32 bits unless it has 64


def started(
    posterior: Target,
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

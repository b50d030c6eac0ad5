"""What draws say about rows: means with intervals, and how probable the targets were that came. Streamed over rows."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from isotherm.tables.model import TableModel
from isotherm.tables.recipe import Recipe
from isotherm.types import Batch, Params, Results

MOST_DRAWS = 1000  # that are looked at
ENTRIES = 1 << 22  # of an array of draws by rows by classes, at most
Floats = NDArray[np.float64]


class Predicted(NamedTuple):
    """Of each row, on the scale of the target: E[y] or the probabilities of classes, how far draws differ in it, the
    ends of its interval, and, for numbers, the ends of the interval in which a new y lies."""

    mean: Floats
    spread: Floats
    low: Floats
    high: Floats
    new_low: Floats | None = None
    new_high: Floats | None = None


def some_draws(tree: Results, most: int = MOST_DRAWS) -> Params:
    """Parameters with a leading axis of draws, of all chains that did not diverge, evenly chosen."""
    posterior = {str(name): array.values for name, array in tree["posterior"].to_dataset().data_vars.items()}
    good = np.all([np.isfinite(values).reshape(len(values), -1).all(axis=1) for values in posterior.values()], axis=0)
    flat = {name: values[good].reshape(-1, *values.shape[2:]) for name, values in posterior.items()}
    total = len(next(iter(flat.values())))
    if not total:
        raise ValueError("there are no draws to predict with: the run has none, or every chain diverged")
    chosen = np.linspace(0, total - 1, min(most, total)).round().astype(int)
    return {name: values[chosen] for name, values in flat.items()}


def predict(recipe: Recipe, model: TableModel, draws: Params, batch: Batch) -> Predicted:
    """`batch` has the rows; their `y` is not looked at."""
    from scipy import stats

    tails = [(1 - recipe.interval) / 2, (1 + recipe.interval) / 2]
    parts = []
    for values in _by_blocks(model.mean, model, draws, batch):
        low, high = np.quantile(values, tails, axis=0)
        parts.append((values.mean(axis=0), values.std(axis=0), low, high))
    mean, spread, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    target = recipe.target
    if target.family == "gaussian":
        noise = float(np.mean(np.exp(2 * draws["log_sigma"].astype(np.float64))))
        width = stats.norm.ppf(tails[1]) * np.sqrt(spread**2 + noise)
        ends = [target.mean + target.scale * value for value in (mean, low, high, mean - width, mean + width)]
        return Predicted(ends[0], target.scale * spread, *ends[1:])
    if target.family == "poisson":  # the rate's draws as a gamma distribution: the count is then negative binomial
        shape = mean**2 / np.maximum(spread**2, 1e-9 * mean**2)
        new = [stats.nbinom.ppf(tail, shape, shape / (shape + mean)) for tail in tails]
        return Predicted(mean, spread, low, high, *new)
    if target.family == "bernoulli":
        mean, low, high = (np.stack(ends, axis=1) for ends in ((1 - mean, mean), (1 - high, low), (1 - low, high)))
        spread = np.stack([spread, spread], axis=1)
    return Predicted(mean, spread, low, high)


def log_densities(model: TableModel, draws: Params, batch: Batch) -> Floats:
    """log p(y | all draws) of each row: the logarithm of the mean over draws, in the units of the model."""
    count = len(next(iter(draws.values())))
    blocks = _by_blocks(model.log_likelihood, model, draws, batch)
    return np.concatenate([np.logaddexp.reduce(values, axis=0) for values in blocks]) - np.log(count)


def _by_blocks(function: Callable[..., Any], model: TableModel, draws: Params, batch: Batch) -> Iterator[Floats]:
    """function(params, row) by (draw, row, …), so many rows at a time."""
    rows, count = len(jax.tree.leaves(batch)[0]), len(next(iter(draws.values())))
    width = max(1, int(np.prod(model.family.shape)), model.hidden)
    size = max(1, min(rows, ENTRIES // (count * width)))
    placed = jax.tree.map(jnp.asarray, draws)
    for start in range(0, rows, size):
        block = {name: values[start : start + size] for name, values in batch.items()}
        short = size - len(next(iter(block.values())))
        if short:  # one shape, one program
            block = {name: np.concatenate([values, np.repeat(values[-1:], short, 0)]) for name, values in block.items()}
        yield np.asarray(_compiled(function)(placed, block), np.float64)[:, : size - short]


@functools.lru_cache(maxsize=8)
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(jax.vmap(jax.vmap(function, (None, 0)), (0, None)))

"""What draws say about rows: means with intervals, and how probable the observed targets were."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotherm.lib.types import Batch, Params, Results
from isotherm.predict.blocks import blocks, make_task
from isotherm.predict.draws import Draws
from isotherm.predict.prediction import predict
from isotherm.tables.model import TableModel
from isotherm.tables.recipe import Recipe

MOST_DRAWS = 1000  # that are looked at
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


def all_draws(tree: Results) -> Params:
    """The draws of chains that did not diverge, by (draw, …), in double precision."""
    draws = Draws(tree, None, None)
    return {
        name: draws.dataset[name].values.reshape(draws.count, *draws.dataset[name].shape[2:]).astype(np.float64)
        for name in draws.names
    }


def predictions(recipe: Recipe, model: TableModel, tree: Results, batch: Batch) -> Predicted:
    from scipy import stats

    rows = {name: column for name, column in batch.items() if name != "y"}
    tails = [(1 - recipe.interval) / 2, (1 + recipe.interval) / 2]
    found = predict(tree, model.mean, rows, quantiles=tails, draws=MOST_DRAWS)
    mean, spread, (low, high) = found["mean"].values, found["sd"].values, found["quantiles"].values
    target = recipe.target
    if target.family == "gaussian":
        noise = float(np.mean(np.exp(2 * all_draws(tree)["log_sigma"])))
        width = stats.norm.ppf(tails[1]) * np.sqrt(spread**2 + noise)
        new_low, new_high = np.minimum(mean - width, low), np.maximum(mean + width, high)
        ends = [target.mean + target.scale * value for value in (mean, low, high, new_low, new_high)]
        return Predicted(ends[0], target.scale * spread, *ends[1:])
    if target.family == "poisson":  # the rate's draws as a gamma distribution: the count is then negative binomial
        shape = mean**2 / np.maximum(spread**2, 1e-9 * mean**2)
        new = [stats.nbinom.ppf(tail, shape, shape / (shape + mean)) for tail in tails]
        return Predicted(mean, spread, low, high, *new)
    if target.family == "bernoulli":
        mean, low, high = (np.stack(ends, axis=1) for ends in ((1 - mean, mean), (1 - high, low), (1 - low, high)))
        spread = np.stack([spread, spread], axis=1)
    return Predicted(mean, spread, low, high)


def log_densities(model: TableModel, tree: Results, batch: Batch) -> Floats:
    """log p(y | data) of each row, in the units of the model: the logarithm of the mean density over draws. The mean of
    densities themselves would be zero for a row that is far out."""
    draws, rows = Draws(tree, None, MOST_DRAWS), len(batch["y"])
    found = np.empty(rows)
    for first, values in blocks(make_task(model.log_likelihood, draws, batch, rows), draws, batch, rows, show=False):
        logs = values["prediction"].astype(np.float64)
        found[first : first + len(logs)] = np.logaddexp.reduce(logs, axis=-1) - np.log(draws.count)
    return found

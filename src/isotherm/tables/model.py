"""A posterior over the columns of a table, where chains start, its draws, and what they predict.

Models and default priors are those of the estimators (models/model.py, models/drbm.py, models/priors.py).
"""

import shutil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotherm.lib.types import Batch, Params, Results
from isotherm.models import DRBM, GeneralisedLinear, Network, families, priors
from isotherm.models.model import Model
from isotherm.models.warm_start import start_near_a_mode
from isotherm.posterior import Posterior
from isotherm.predict import predict
from isotherm.predict.prediction import PREDICTION_DRAWS, Draws, blocks, make_task
from isotherm.run.fit import fit
from isotherm.store.checkpoint import slots
from isotherm.tables.options import TableOptions
from isotherm.tables.recipe import NETWORKS, Recipe, write
from isotherm.tables.target import TargetColumn

Floats = NDArray[np.float64]
ONE_NUMBER: dict[str, families.Family] = {
    "gaussian": families.Gaussian(),
    "bernoulli": families.Bernoulli(),
    "poisson": families.Poisson(),
}


def default_scale(name: str, target: TargetColumn) -> float:
    """Return the standard deviation of the estimators' prior."""
    if name == "drbm":
        return priors.MACHINE_SCALE
    if name == "mlp":
        return priors.CLASSIFIER_SCALE if target.classes else priors.REGRESSOR_SCALE
    return priors.COEFFICIENT_SCALE


def build(recipe: Recipe) -> Model:
    """Return the model of a recipe."""
    target, features, levels = recipe.target, len(recipe.inputs), recipe.offsets[-1]
    variance = recipe.prior_scale**2
    if recipe.model == "drbm":
        return DRBM(features, recipe.hidden, len(target.classes), variance, levels)
    classes = target.family == "categorical"
    family = families.Categorical(len(target.classes)) if classes else ONE_NUMBER[target.family]
    if recipe.model == "mlp":
        output = priors.CLASSIFIER_OUTPUT if target.classes else 1.0
        return Network(features, (recipe.hidden,), family, "tanh", variance, output, levels)
    return GeneralisedLinear(features, family, variance, priors.INTERCEPT_SCALE**2, levels)


def fit_table(options: TableOptions, recipe: Recipe, data: Batch) -> Results:
    """Sample the posterior of the encoded rows into a new folder."""
    model, run = build(recipe), options.run_folder
    is_new = not run.exists()
    write(recipe, run)
    try:
        return fit(
            make_posterior(model),
            data,
            start(recipe, model, data),
            ess=options.ess,
            seconds=options.seconds or None,
            anchored=recipe.model not in NETWORKS,
            chains=options.chains,
            seed=options.seed,
            store=run,
        )
    finally:
        if is_new and not any(slot.exists() for slot in slots(run)):
            shutil.rmtree(run, ignore_errors=True)  # nothing was sampled


def make_posterior(model: Model) -> Posterior:
    return Posterior(model.log_likelihood, model.log_prior)


def start(recipe: Recipe, model: Model, data: Batch) -> Params:
    """Return where chains begin: at the average row's predictor; of a network near a mode, each chain at its own."""
    if recipe.model in NETWORKS:
        return start_near_a_mode(make_posterior(model), model, data)
    params = model.zeros()
    return params | {"intercept": np.asarray(recipe.target.base, np.float32).reshape(params["intercept"].shape)}


class Predicted(NamedTuple):
    """Of each row, on the scale of the target: E[y] or the probabilities of classes, how far draws differ in it, the
    ends of its interval, and those of the interval in which a new y lies; of classes, the same."""

    mean: Floats
    spread: Floats
    low: Floats
    high: Floats
    new_low: Floats
    new_high: Floats


def all_draws(tree: Results) -> Params:
    """Return the draws of chains that did not diverge, by (draw, …), in double precision."""
    draws = Draws(tree, None, None)
    return {
        name: draws.dataset[name].values.reshape(draws.count, *draws.dataset[name].shape[2:]).astype(np.float64)
        for name in draws.names
    }


def predictions(recipe: Recipe, model: Model, tree: Results, batch: Batch) -> Predicted:
    """Return what draws say about rows."""
    from scipy import stats

    rows = {name: column for name, column in batch.items() if name != "y"}
    tails = [(1 - recipe.interval) / 2, (1 + recipe.interval) / 2]
    found = predict(tree, model.mean, rows, quantiles=tails, draws=PREDICTION_DRAWS)
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
    return Predicted(mean, spread, low, high, low, high)


def log_densities(model: Model, tree: Results, batch: Batch) -> Floats:
    """Return log p(y | data) of each row, in the units of the model: the logarithm of the mean density over draws."""
    draws, rows = Draws(tree, None, PREDICTION_DRAWS), len(batch["y"])
    found = np.empty(rows)
    for first, values in blocks(make_task(model.log_likelihood, draws, batch, rows), draws, batch, rows, show=False):
        logs = values["prediction"].astype(np.float64)
        found[first : first + len(logs)] = np.logaddexp.reduce(logs, axis=-1) - np.log(draws.count)
    return found

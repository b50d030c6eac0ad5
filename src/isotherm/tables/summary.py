"""What a run found: coefficients on the scale of the table, and how well the rows that were held out are predicted."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotherm.diagnostics.predictive import expected_calibration_error
from isotherm.lib.types import Params
from isotherm.tables.encoding import MISSING_LEVEL
from isotherm.tables.predictions import Predicted
from isotherm.tables.recipe import Recipe

BINS = 15  # of the calibration error
Floats = NDArray[np.float64]


class Coefficient(NamedTuple):
    """`kind` is "intercept", "number", "level" or "sigma"; `of` is the class that it is for, if there are several;
    `rows` have this level."""

    kind: str
    column: str
    level: str
    of: str
    mean: float
    deviation: float
    low: float
    high: float
    rows: int = 0

    @property
    def strength(self) -> float:
        """How far from zero, in standard deviations."""
        return abs(self.mean) / max(self.deviation, 1e-300)

    @property
    def name(self) -> str:
        return f"{self.column}: {self.level}" if self.kind == "level" else self.column


class Score(NamedTuple):
    """A number about held-out rows, and what it is without any column: what predicting the average gives."""

    name: str
    value: float
    average: float | None
    words: str


def coefficients(recipe: Recipe, draws: Params) -> list[Coefficient]:
    """On the scale of the table: the change of the predictor (or of the target, if that is a number) with one unit of a
    column. Effects of levels are compared with the average row; those of several classes with the average class."""
    if recipe.model in ("mlp", "drbm"):
        return []
    several = recipe.target.family == "categorical"
    names = recipe.target.classes if several else ("",)
    unit = recipe.target.scale

    def by_class(values: Floats) -> Floats:
        """(draw, entry, class), from the average class."""
        return values - values.mean(axis=2, keepdims=True) if several else values[..., None]

    count = len(draws["intercept"])
    intercept = by_class(draws["intercept"][:, None])[:, 0]
    found: list[Coefficient] = []
    if recipe.inputs:
        raw = draws["slopes"].swapaxes(1, 2) if several else draws["slopes"]
        slopes = unit * by_class(raw)
        scales, means = np.ones(len(recipe.inputs)), np.zeros(len(recipe.inputs))
        scales[: len(recipe.numbers)] = [column.scale for column in recipe.numbers]
        means[: len(recipe.numbers)] = [column.mean for column in recipe.numbers]
        slopes = slopes / scales[:, None]
        intercept = intercept - np.einsum("djk,j->dk", slopes, means) / unit
        found += [
            _summarised("number", name, "", of, slopes[:, j, k], recipe.interval)
            for j, name in enumerate(recipe.inputs)
            for k, of in enumerate(names)
        ]
    if recipe.levels:
        effects = by_class(draws["effects"])
        for start, column in zip(recipe.offsets, recipe.levels, strict=False):
            each = effects[:, start : start + len(column.levels)]
            counts = np.array(column.counts, np.float64)
            rows = counts.sum() + (0 if MISSING_LEVEL in column.levels else column.missing)
            average = np.einsum("dlk,l->dk", each, counts / rows)
            intercept = intercept + average
            each = unit * (each - average[:, None])
            found += [
                _summarised("level", column.name, level, of, each[:, i, k], recipe.interval, column.counts[i])
                for i, level in enumerate(column.levels)
                for k, of in enumerate(names)
            ]
    first = [
        _summarised("intercept", "intercept", "", of, recipe.target.mean + unit * intercept[:, k], recipe.interval)
        for k, of in enumerate(names)
    ]
    last = []
    if recipe.target.family == "gaussian":
        sigma = unit * np.exp(draws["log_sigma"])
        last = [_summarised("sigma", "residual standard deviation", "", "", sigma.reshape(count), recipe.interval)]
    return first + found + last


def _summarised(
    kind: str, column: str, level: str, of: str, values: Floats, interval: float, rows: int = 0
) -> Coefficient:
    low, high = np.quantile(values, [(1 - interval) / 2, (1 + interval) / 2])
    numbers = float(values.mean()), float(values.std()), float(low), float(high)
    return Coefficient(kind, column, level, of, *numbers, rows)


def scores(recipe: Recipe, predicted: Predicted, densities: Floats, y: NDArray[np.generic]) -> list[Score]:
    """Of held-out rows with these targets, as encoded; `densities` are log p(y) of each."""
    if recipe.target.classes:
        return _class_scores(recipe, predicted.mean, densities, y.astype(np.int64))
    return _number_scores(recipe, predicted, densities, np.asarray(y, np.float64))


def _class_scores(recipe: Recipe, p: Floats, densities: Floats, y: NDArray[np.int64]) -> list[Score]:
    shares = class_shares(recipe)
    ece = expected_calibration_error(np.clip(p, 0, 1), y, BINS)
    return [
        Score("accuracy", float((p.argmax(axis=1) == y).mean()), float((y == shares.argmax()).mean()), "rows right"),
        Score("log loss", float(-densities.mean()), float(-np.log(shares[y]).mean()), "nats a row"),
        Score("calibration error", ece, None, f"ECE, {BINS} bins: how far probabilities are from frequencies"),
    ]


def class_shares(recipe: Recipe) -> Floats:
    """The share of the rows in each class, which is the prediction without any column."""
    base = np.array(recipe.target.base)
    logits = np.array([0.0, base[0]]) if recipe.target.family == "bernoulli" else base
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def _number_scores(recipe: Recipe, predicted: Predicted, densities: Floats, y: Floats) -> list[Score]:
    target = recipe.target
    poisson = target.family == "poisson"
    actual, usual = target.mean + target.scale * y, float(np.exp(target.base[0])) if poisson else target.mean
    error, plain_error = (float(np.sqrt(np.mean((actual - guess) ** 2))) for guess in (predicted.mean, usual))
    assert predicted.new_low is not None
    assert predicted.new_high is not None
    inside = float(((actual >= predicted.new_low) & (actual <= predicted.new_high)).mean())
    return [
        Score("root mean square error", error, plain_error, f"in the units of {target.name}"),
        Score("R²", 1 - (error / plain_error) ** 2, 0.0, "share of the variance that is predicted"),
        Score("log loss", float(-densities.mean() + np.log(target.scale)), None, "minus the log density, nats a row"),
        Score("coverage", inside, None, f"of the {recipe.interval:.0%} intervals for new rows"),
    ]


def reliability(p: Floats, y: NDArray[np.int64]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """By bin of the predicted probability, of every class: its mean, the observed frequency of the class, and how many
    there are; bins that are empty are left out."""
    flat, came = p.ravel(), (y[:, None] == np.arange(p.shape[1])).ravel()
    if p.shape[1] == 2:
        flat, came = p[:, 1], y == 1
    place = np.clip((flat * BINS).astype(np.int64), 0, BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    there = counts > 0
    sums = (np.bincount(place, weights, BINS)[there] / counts[there] for weights in (flat, came.astype(np.float64)))
    return (*sums, counts[there])  # type: ignore[return-value]

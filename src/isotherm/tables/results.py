"""What a run of a table found: coefficients on the scale of the table, how well the rows that were held out are
predicted, and the verdict in the names of the columns; for the terminal and for the report."""

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotherm.diagnostics.check import Verdict, check
from isotherm.diagnostics.predictive import expected_calibration_error
from isotherm.lib.types import Batch, Params, Results
from isotherm.tables import model
from isotherm.tables.columns import plain
from isotherm.tables.model import Floats, Predicted
from isotherm.tables.preparing import Prepared
from isotherm.tables.recipe import MISSING_LEVEL, NETWORKS, Recipe

BINS = 15  # of the calibration error
ENTRY = re.compile(r"(?:intercept|coef|effects|log_sigma)(?:\[[\d, ]+\])?")


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


@dataclass(frozen=True, eq=False)
class TableResults:
    """`probabilities` (m, classes) and `y` of held-out rows, where there are classes."""

    recipe: Recipe
    tree: Results
    verdict: Verdict
    coefficients: list[Coefficient]
    scores: list[Score]
    words: str
    names: dict[str, str]
    probabilities: Floats | None = None
    y: NDArray[np.int64] | None = None


def collect(prepared: Prepared, tree: Results) -> TableResults:
    """Compute everything that is shown of a finished run."""
    recipe, train, held_out = prepared
    built, names, verdict = model.build(recipe), entry_names(recipe), verdict_of(recipe, tree, train)
    words = words_of(recipe, len(train["y"]), 0 if held_out is None else len(held_out["y"]), tree)
    coefs = coefficients(recipe, model.all_draws(tree))
    if held_out is None:
        return TableResults(recipe, tree, verdict, coefs, [], words, names)
    found, y = model.predictions(recipe, built, tree, held_out), held_out["y"]
    scored = scores(recipe, found, model.log_densities(built, tree, held_out), y)
    classes = (found.mean, y.astype(np.int64)) if recipe.target.classes else (None, None)
    return TableResults(recipe, tree, verdict, coefs, scored, words, names, *classes)


def verdict_of(recipe: Recipe, tree: Results, train: Batch) -> Verdict:
    """Return the verdict on a run, in the names of the columns."""
    return rename_entries(check(tree, model.make_posterior(model.build(recipe)), train), entry_names(recipe))


def words_of(recipe: Recipe, rows: int, held_out: int, tree: Results) -> str:
    """Return the model, the rows and the draws, in a sentence."""
    classes = f", {len(recipe.target.several)} classes" if recipe.target.several else ""
    levels = f" and {len(recipe.levels)} of levels ({recipe.offsets[-1]:,} in all)" if recipe.levels else ""
    columns = "1 column" if len(recipe.inputs) == 1 else f"{len(recipe.inputs):,} columns"
    draws = tree["posterior"].to_dataset()
    entries = sum(int(np.prod(array.shape[2:])) for array in draws.data_vars.values())
    from_file = " from the test file" if recipe.source.test else ""
    return (
        f"{recipe.model} model of {plain(recipe.target.words)}{classes}: {columns} of numbers"
        f"{levels}, {entries:,} parameters; {rows:,} rows learned from, {held_out:,} held out{from_file}; "
        f"{draws.sizes['chain']} chains of {draws.sizes['draw']:,} draws"
    )


def entry_names(recipe: Recipe) -> dict[str, str]:
    """Return names that speak of the table's columns, by those that entries of the parameters have in the results; a
    network's have no others."""
    if recipe.model in NETWORKS:
        return {}
    inputs = [plain(name) for name in recipe.inputs]
    effects = [f"{plain(column.name)}: {plain(level)}" for column in recipe.levels for level in column.levels]
    classes = [plain(name) for name in recipe.target.several]
    if not classes:
        found = {f"coef[{j}]": name for j, name in enumerate(inputs)}
        return found | {f"effects[{i}]": name for i, name in enumerate(effects)}
    found = {}
    for k, of in enumerate(classes):
        found[f"intercept[{k}]"] = f"intercept, {of}"
        found |= {f"coef[{k}, {j}]": f"{name}, {of}" for j, name in enumerate(inputs)}
        found |= {f"effects[{i}, {k}]": f"{name}, {of}" for i, name in enumerate(effects)}
    return found


def rename_entries(verdict: Verdict, names: dict[str, str]) -> Verdict:
    """Return a verdict in the names of the columns."""

    def words(text: str) -> str:
        return ENTRY.sub(lambda match: names.get(match[0], match[0]), text)

    lines = tuple(line._replace(found=words(line.found)) for line in verdict.table)
    moments = verdict.moments
    if moments is not None:
        moments = moments._replace(names=tuple(names.get(name, name) for name in moments.names))
    return replace(verdict, table=lines, moments=moments)


def coefficients(recipe: Recipe, draws: Params) -> list[Coefficient]:
    """Return coefficients on the scale of the table: the change of the predictor (or of the target, if that is a
    number) with one unit of a column. Effects of levels are compared with the average row; those of several classes
    with the average class."""
    if recipe.model in NETWORKS:
        return []
    several, unit = bool(recipe.target.several), recipe.target.scale

    def by_class(values: Floats) -> Floats:
        """Return (draw, entry, class), from the average class."""
        return values - values.mean(axis=2, keepdims=True) if several else values[..., None]

    def summarise(kind: str, column: str, level: str, values: Floats, rows: int = 0) -> list[Coefficient]:
        """Return a coefficient for each class, of values by (draw, class)."""
        ends = np.quantile(values, [(1 - recipe.interval) / 2, (1 + recipe.interval) / 2], axis=0)
        numbers = np.stack([values.mean(axis=0), values.std(axis=0), *ends], axis=1).tolist()
        classes = enumerate(recipe.target.several or ("",))
        return [Coefficient._make([kind, column, level, of, *numbers[k], rows]) for k, of in classes]

    intercept = by_class(draws["intercept"][:, None])[:, 0]
    found: list[Coefficient] = []
    if recipe.inputs:
        centre, scale = recipe.units
        slopes = unit * by_class(draws["coef"].swapaxes(1, 2) if several else draws["coef"]) / scale[:, None]
        intercept = intercept - np.einsum("djk,j->dk", slopes, centre) / unit
        for j, name in enumerate(recipe.inputs):
            found += summarise("number", name, "", slopes[:, j])
    for start, column in zip(recipe.offsets, recipe.levels, strict=False):
        effects = by_class(draws["effects"])[:, start : start + len(column.levels)]
        counts = np.array(column.counts, np.float64)
        rows = counts.sum() + (0 if MISSING_LEVEL in column.levels else column.missing)
        average = np.einsum("dlk,l->dk", effects, counts / rows)
        intercept = intercept + average
        for i, level in enumerate(column.levels):
            found += summarise("level", column.name, level, unit * (effects[:, i] - average), column.counts[i])
    found = summarise("intercept", "intercept", "", recipe.target.mean + unit * intercept) + found
    if recipe.target.family == "gaussian":
        found += summarise("sigma", "residual standard deviation", "", unit * np.exp(draws["log_sigma"])[:, None])
    return found


def scores(recipe: Recipe, predicted: Predicted, densities: Floats, y: NDArray[np.generic]) -> list[Score]:
    """Return scores of held-out rows with these targets, as encoded; `densities` are log p(y) of each."""
    if not recipe.target.classes:
        return _number_scores(recipe, predicted, densities, np.asarray(y, np.float64))
    p, codes, base = predicted.mean, y.astype(np.int64), np.array(recipe.target.base)
    logits = base if recipe.target.several else np.array([0.0, base[0]])
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()  # of the rows in each class, which is the prediction without any column
    right, usual = (float((guess == codes).mean()) for guess in (p.argmax(axis=1), shares.argmax()))
    ece = expected_calibration_error(np.clip(p, 0, 1), codes, BINS)
    return [
        Score("accuracy", right, usual, "rows right"),
        Score("log loss", float(-densities.mean()), float(-np.log(shares[codes]).mean()), "nats a row"),
        Score("calibration error", ece, None, f"ECE, {BINS} bins: how far probabilities are from frequencies"),
    ]


def _number_scores(recipe: Recipe, predicted: Predicted, densities: Floats, y: Floats) -> list[Score]:
    target = recipe.target
    actual = target.mean + target.scale * y
    usual = float(np.exp(target.base[0])) if target.family == "poisson" else target.mean
    error, plain_error = (float(np.sqrt(np.mean((actual - guess) ** 2))) for guess in (predicted.mean, usual))
    inside = float(((actual >= predicted.new_low) & (actual <= predicted.new_high)).mean())
    return [
        Score("root mean square error", error, plain_error, f"in the units of {target.name}"),
        Score("R²", 1 - (error / plain_error) ** 2, 0.0, "share of the variance that is predicted"),
        Score("log loss", float(-densities.mean() + np.log(target.scale)), None, "minus the log density, nats a row"),
        Score("coverage", inside, None, f"of the {recipe.interval:.0%} intervals for new rows"),
    ]


def reliability(p: Floats, y: NDArray[np.int64]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return, by bin of the predicted probability, of every class: its mean, the observed frequency of the class, and
    how many there are; bins that are empty are left out."""
    flat, came = p.ravel(), (y[:, None] == np.arange(p.shape[1])).ravel()
    if p.shape[1] == 2:
        flat, came = p[:, 1], y == 1
    place = np.clip((flat * BINS).astype(np.int64), 0, BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    there = counts > 0
    means, frequencies = (
        np.bincount(place, weights, BINS)[there] / counts[there] for weights in (flat, came.astype(float))
    )
    return means, frequencies, counts[there]

"""Everything a finished run of a table is asked for, in one place: for the terminal and for the report."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isotherm.lib.types import Results
from isotherm.run.check import Verdict, check
from isotherm.tables import column_names, model, predictions, summary
from isotherm.tables.columns import plain
from isotherm.tables.preparing import Prepared
from isotherm.tables.recipe import Recipe
from isotherm.tables.summary import Coefficient, Score


@dataclass(frozen=True, eq=False)
class Found:
    """`probabilities` (m, classes) and `y` of held-out rows, where there are classes."""

    recipe: Recipe
    tree: Results
    verdict: Verdict
    coefficients: list[Coefficient]
    scores: list[Score]
    words: str
    names: dict[str, str]
    probabilities: NDArray[np.float64] | None = None
    y: NDArray[np.int64] | None = None


def find(prepared: Prepared, tree: Results) -> Found:
    recipe, train, held_out = prepared
    built, names = model.of(recipe), column_names.names(recipe)
    verdict = column_names.renamed(check(tree, built.posterior(), train, init=built.init()), names)
    coefficients = summary.coefficients(recipe, predictions.all_draws(tree))
    scores, probabilities, y, count = list[Score](), None, None, 0
    if held_out is not None:
        predicted = predictions.predictions(recipe, built, tree, held_out)
        count, densities = len(held_out["y"]), predictions.log_densities(built, tree, held_out)
        scores = summary.scores(recipe, predicted, densities, held_out["y"])
        if recipe.target.classes:
            probabilities, y = predicted.mean, held_out["y"].astype(np.int64)
    words = words_of(recipe, len(train["y"]), count, tree)
    return Found(recipe, tree, verdict, coefficients, scores, words, names, probabilities, y)


def words_of(recipe: Recipe, rows: int, held_out: int, tree: Results) -> str:
    """The model, the rows and the draws, in a sentence."""
    aim = f"{plain(recipe.target.name)} {recipe.target.threshold}".strip()
    classes = f", {len(recipe.target.classes)} classes" if recipe.target.family == "categorical" else ""
    levels = f" and {len(recipe.levels)} of levels ({recipe.offsets[-1]:,} in all)" if recipe.levels else ""
    entries = sum(int(np.prod(shape)) for shape in model.of(recipe).shapes.values())
    sizes = tree["posterior"].sizes
    from_file = " from the test file" if recipe.source.test else ""
    return (
        f"{recipe.model} model of {aim}{classes}: {len(recipe.inputs)} columns of numbers{levels}, {entries:,} "
        f"parameters; {rows:,} rows learned from, {held_out:,} held out{from_file}; {sizes['chain']} chains of "
        f"{sizes['draw']:,} draws"
    )

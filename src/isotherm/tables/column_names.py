"""Names of the parameters of a run that speak of the table's columns."""

import re
from dataclasses import replace
from itertools import product

from isotherm.run.check import Verdict
from isotherm.tables.columns import plain
from isotherm.tables.recipe import Recipe

ENTRY = re.compile(r"(?:intercept|slopes|effects|log_sigma)(?:\[[\d, ]+\])?")


def names(recipe: Recipe) -> dict[str, str]:
    """Such names by those that entries of the parameters have in the results; a network's have no others."""
    if recipe.model in ("mlp", "drbm"):
        return {}
    classes = recipe.target.classes if recipe.target.family == "categorical" else ()
    inputs = [plain(name) for name in recipe.inputs]
    effects = [f"{plain(column.name)}: {plain(level)}" for column in recipe.levels for level in column.levels]
    if not classes:
        found = {f"slopes[{j}]": name for j, name in enumerate(inputs)}
        return found | {f"effects[{i}]": name for i, name in enumerate(effects)}
    of = [plain(name) for name in classes]
    found = {f"intercept[{k}]": f"intercept, {name}" for k, name in enumerate(of)}
    found |= {f"slopes[{k}, {j}]": f"{inputs[j]}, {of[k]}" for k, j in product(range(len(of)), range(len(inputs)))}
    return found | {
        f"effects[{i}, {k}]": f"{effects[i]}, {of[k]}" for i, k in product(range(len(effects)), range(len(of)))
    }


def renamed(verdict: Verdict, names: dict[str, str]) -> Verdict:
    def words(text: str) -> str:
        return ENTRY.sub(lambda match: names.get(match[0], match[0]), text)

    lines = tuple(line._replace(found=words(line.found)) for line in verdict.table)
    moments = verdict.moments
    if moments is not None:
        moments = moments._replace(names=tuple(names.get(name, name) for name in moments.names))
    return replace(verdict, table=lines, moments=moments)

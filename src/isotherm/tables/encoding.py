"""A plan for each column, from the rows that are learned from; and any rows as arrays, by these plans."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotherm.lib.types import Batch
from isotherm.models.units import column_units
from isotherm.tables.columns import MISSING, Column, Levels, Numbers, Table, plain, quoted
from isotherm.tables.recipe import LevelColumn, NumberColumn, Recipe

MISSING_LEVEL = "(missing)"
MOST_DIFFERENT = 0.5  # of the rows may have a text of their own; a column with more is a name, not a category
FEW_LEVELS = 20  # up to which a column of text is a category in any case


def why_not(name: str, column: Column, asked: bool) -> str:
    """Why a column is left out, in words; nothing if it is used. `asked`: --categorical names it."""
    different = column.names if isinstance(column, Levels) else ()
    if isinstance(column, Levels):
        counts = np.bincount(column.codes[column.codes >= 0], minlength=len(different))
        used = np.flatnonzero(counts)
        values = [quoted(different[code]) for code in used[:2]]
        if not asked and len(used) > max(FEW_LEVELS, MOST_DIFFERENT * counts.sum()):
            return f"{len(used):,} different texts in {counts.sum():,} rows; --categorical keeps it"
    else:
        assert isinstance(column, Numbers)
        there = column.values[~column.is_missing()]
        values = [f"{value:g}" for value in (there.min(), there.max())] if there.size else []
        if there.size and there.min() == there.max():
            values = values[:1]
    if not values:
        raise ValueError(f"the column {quoted(name)} has no values at all; leave it out with --ignore")
    if len(values) == 1 and not column.is_missing().any():
        raise ConstantColumn(name, values[0])
    return ""


def number_plan(name: str, column: Numbers, rule: str) -> NumberColumn:
    """The plan for a column, from the rows that are learned from; one that happens to be constant in these has a
    coefficient all the same, of which only the prior is known."""
    there = column.values[~column.is_missing()]
    missing = len(column.values) - len(there)
    mean, scale = column_units(there) if there.size else (0.0, 1.0)
    if not np.isfinite(scale):
        raise ValueError(f"the numbers of the column {quoted(name)} are too large to be standardised; rescale them")
    return NumberColumn(name, float(mean), float(scale), missing, rule == "indicator" and missing > 0)


def level_plan(name: str, column: Levels, rule: str) -> LevelColumn:
    there = column.codes[column.codes >= 0]
    missing, counts = len(column.codes) - len(there), np.bincount(there, minlength=len(column.names))
    used = np.flatnonzero(counts)
    levels, numbers = [column.names[code] for code in used], [int(count) for count in counts[used]]
    if rule == "indicator" and missing:
        levels, numbers = [*levels, MISSING_LEVEL], [*numbers, missing]
    return LevelColumn(name, tuple(levels), tuple(numbers), missing, column.truth)


class ConstantColumn(ValueError):
    def __init__(self, name: str, value: str) -> None:
        self.name = name
        super().__init__(
            f"the column {quoted(name)} is {value} in every row, and tells nothing about the target; leave it out with "
            "--ignore, or all such columns with --ignore-constant"
        )


def arrays(recipe: Recipe, table: Table) -> Batch:
    """`numbers` (n, p) float32 and `codes` (n, c) int32 into the effects of all columns; either only if there are
    columns for it."""
    n = table.rows
    batch: dict[str, NDArray[Any]] = {}
    if recipe.inputs:
        numbers = np.zeros((n, len(recipe.inputs)), np.float32)
        extra = len(recipe.numbers)
        for place, plan in enumerate(recipe.numbers):
            column = table[plan.name]
            assert isinstance(column, Numbers)
            missing = column.is_missing()
            numbers[:, place] = np.where(missing, 0, (column.values - plan.mean) / plan.scale)
            if plan.indicator:
                numbers[:, extra] = missing
                extra += 1
        batch["numbers"] = numbers
    if recipe.levels:
        codes = np.empty((n, len(recipe.levels)), np.int32)
        for place, level_plan in enumerate(recipe.levels):
            found = level_codes(level_plan, table[level_plan.name])
            codes[:, place] = np.where(found == MISSING, MISSING, found + recipe.offsets[place])
        batch["codes"] = codes
    return batch


def level_codes(plan: LevelColumn, column: Column) -> NDArray[np.int64]:
    """Codes into the levels of the plan; MISSING where there is none, or an unknown one."""
    assert isinstance(column, Levels)
    place = {name: code for code, name in enumerate(plan.levels)}
    missing = place.get(MISSING_LEVEL, MISSING)
    codes = np.array([*(place.get(name, MISSING) for name in column.names), missing], np.int64)
    return codes[column.codes]


def unknown_levels(recipe: Recipe, table: Table) -> list[str]:
    """A sentence for each column with levels that were not in the rows learned from."""
    words = []
    for plan in recipe.levels:
        column = table[plan.name]
        assert isinstance(column, Levels)
        codes = level_codes(plan, column)
        rows = (codes == MISSING) & ~column.is_missing()
        if rows.any():
            new = np.unique(column.codes[rows])
            listed = ", ".join(quoted(column.names[code]) for code in new[:3]) + (", …" if len(new) > 3 else "")
            words.append(
                f"{plain(plan.name)}: {rows.sum():,} rows have one of {len(new):,} levels that were not learned from "
                f"({listed}): these get the effect 0, the prior's mean"
            )
    return words


def incomplete(recipe: Recipe, table: Table) -> NDArray[np.bool_]:
    """Which rows lack a value of a column that is used."""
    rows = np.zeros(table.rows, np.bool_)
    for plan in recipe.columns:
        rows |= table[plan.name].is_missing()
    return rows

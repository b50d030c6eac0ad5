"""What is done with each column of a table, so that the same can be done with new rows: JSON, in the run's folder.

It holds everything that a prediction needs beside the draws, and nothing in it is executed. A kind of column has a
class here, which plans what becomes of the column, from the rows that are learned from, and then encodes any rows:
`NumberColumn` as columns of x, `LevelColumn` as codes, which are indices into one vector of all effects.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from isotherm.lib import files
from isotherm.lib.types import Batch, Json
from isotherm.lib.version import __version__
from isotherm.models.priors import Units, column_units
from isotherm.store.checkpoint import HIDDEN
from isotherm.tables.columns import MISSING, Frame, Levels, Numbers, TableColumn, plain, quote
from isotherm.tables.target import FAMILIES, TargetColumn

FILE = "table.json"
VERSION = 2  # 1 had other units of rare columns, and other priors
MODELS = ("linear", "logistic", "softmax", "poisson", "drbm", "mlp")
NETWORKS = ("drbm", "mlp")
RULES = ("error", "mean", "indicator", "drop")
MISSING_LEVEL = "(missing)"
NAME_SHARE = 0.5  # of the rows with a text of their own: a column with more is a name, not a category,
CATEGORY_LEVELS = 20  # unless it has no more than these
T = TypeVar("T")


@dataclass(frozen=True)
class NumberColumn:
    """x becomes (x − mean)/scale, and 0 where it is missing; `indicator`: being missing has a coefficient too."""

    name: str
    mean: float
    scale: float
    missing: int = 0
    indicator: bool = False
    kind: str = "number"

    @classmethod
    def plan(cls, name: str, column: TableColumn, rule: str) -> Self:
        """One that happens to be constant in these rows has a coefficient all the same, of which only the prior is
        known."""
        there = column.values[~column.is_missing()]
        missing = len(column.values) - len(there)
        mean, scale = column_units(there) if there.size else (0.0, 1.0)
        if not np.isfinite(scale):
            raise ValueError(f"the numbers of the column {quote(name)} are too large to be standardised; rescale them")
        return cls(name, float(mean), float(scale), missing, rule == "indicator" and missing > 0)

    @property
    def inputs(self) -> list[str]:
        """The columns of x that it becomes."""
        return [self.name, *([f"{self.name} is missing"] if self.indicator else [])]

    @property
    def units(self) -> list[tuple[float, float]]:
        """Centre and scale of each of them."""
        return [(self.mean, self.scale), (0.0, 1.0)][: len(self.inputs)]

    def encode(self, column: TableColumn) -> NDArray[np.float32]:
        """Return its columns of x: standardised, and whether it is missing where that counts."""
        missing = column.is_missing()
        x = np.where(missing, 0, (column.values - self.mean) / self.scale)
        return np.stack([x, missing][: len(self.inputs)], axis=1).astype(np.float32)


@dataclass(frozen=True)
class LevelColumn:
    """Each level has an effect; one that is missing or unknown has none. `counts` are rows by level."""

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    missing: int = 0
    truth: bool = False
    kind: str = "level"

    @classmethod
    def plan(cls, name: str, column: TableColumn, rule: str) -> Self:
        assert isinstance(column, Levels)
        missing, counts = int(column.is_missing().sum()), column.counts()
        used = np.flatnonzero(counts)
        levels, numbers = [column.names[code] for code in used], [int(count) for count in counts[used]]
        if rule == "indicator" and missing:
            levels, numbers = [*levels, MISSING_LEVEL], [*numbers, missing]
        return cls(name, tuple(levels), tuple(numbers), missing, column.truth)

    def encode(self, column: TableColumn) -> NDArray[np.int64]:
        """Return codes into the levels; MISSING where there is none, or an unknown one."""
        assert isinstance(column, Levels)
        place = {name: code for code, name in enumerate(self.levels)}
        codes = [*(place.get(name, MISSING) for name in column.names), place.get(MISSING_LEVEL, MISSING)]
        return np.array(codes, np.int64)[column.values]


# By kind of column in memory; what was stored is known by its `kind`.
ColumnPlan = NumberColumn | LevelColumn
PLANS: dict[type[TableColumn], type[ColumnPlan]] = {Numbers: NumberColumn, Levels: LevelColumn}
STORED_PLANS = {plan.kind: plan for plan in PLANS.values()}


def plan_column(name: str, column: TableColumn, rule: str) -> ColumnPlan:
    """Plan what becomes of a column, from the rows that are learned from, by a rule for missing values."""
    return PLANS[type(column)].plan(name, column, rule)


@dataclass(frozen=True)
class TableSource:
    """Where the rows came from, what each column in the file holds, and which rows were held out."""

    table: str
    test: str | None
    na: tuple[str, ...]
    delimiter: str | None
    kinds: dict[str, str]
    holdout: float
    seed: int


@dataclass(frozen=True)
class Recipe:
    """The model, its prior and its columns; `notes` are what was said about the table when it was read."""

    model: str
    missing: str
    prior_scale: float
    hidden: int
    target: TargetColumn
    columns: tuple[ColumnPlan, ...]
    source: TableSource
    interval: float = 0.95
    notes: tuple[str, ...] = field(default=())

    @property
    def numbers(self) -> list[NumberColumn]:
        return [plan for plan in self.columns if isinstance(plan, NumberColumn)]

    @property
    def levels(self) -> list[LevelColumn]:
        return [plan for plan in self.columns if isinstance(plan, LevelColumn)]

    @property
    def inputs(self) -> list[str]:
        """The columns of x."""
        return [name for column in self.numbers for name in column.inputs]

    @property
    def units(self) -> Units:
        """Those of the columns of x."""
        return Units(*np.array([pair for column in self.numbers for pair in column.units]).reshape(-1, 2).T)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where in the vector of all effects those of each column begin, and its length."""
        return (0, *np.cumsum([len(column.levels) for column in self.levels], dtype=int).tolist())

    def encode(self, table: Frame) -> Batch:
        """Return `x` (n, p) float32 and `codes` (n, c) int32; either only if there are columns for it."""
        batch: dict[str, NDArray[np.generic]] = {}
        if self.numbers:
            batch["x"] = np.concatenate([plan.encode(table[plan.name]) for plan in self.numbers], axis=1)
        if self.levels:
            codes = np.stack([plan.encode(table[plan.name]) for plan in self.levels], axis=1)
            batch["codes"] = np.where(codes == MISSING, MISSING, codes + self.offsets[:-1]).astype(np.int32)
        return batch

    def incomplete(self, table: Frame) -> NDArray[np.bool_]:
        """Return which rows lack a value of a column that is used."""
        return np.any(
            [np.zeros(table.rows, np.bool_), *(table[plan.name].is_missing() for plan in self.columns)], axis=0
        )

    def unknown_levels(self, table: Frame) -> list[str]:
        """Return a sentence for each column with levels that were not in the rows learned from."""
        words = []
        for plan in self.levels:
            column = table[plan.name]
            assert isinstance(column, Levels)
            rows = (plan.encode(column) == MISSING) & ~column.is_missing()
            if rows.any():
                new = np.unique(column.values[rows])
                shown = ", ".join(quote(column.names[code]) for code in new[:3]) + (", …" if len(new) > 3 else "")
                words.append(
                    f"{plain(plan.name)}: {rows.sum():,} rows have one of {len(new):,} levels that were not learned "
                    f"from ({shown}): these get the effect 0, the prior's mean"
                )
        return words


class ConstantColumn(ValueError):
    """A column that is the same in every row."""


def why_unused(name: str, column: TableColumn, asked: bool) -> str:
    """Return why a column is left out, in words; nothing if it is used. `asked`: --categorical names it."""
    if isinstance(column, Levels) and not asked:
        counts = column.counts()
        if (different := np.count_nonzero(counts)) > max(CATEGORY_LEVELS, NAME_SHARE * counts.sum()):
            return f"{different:,} different texts in {counts.sum():,} rows; --categorical keeps it"
    values = column.extremes()
    if not values:
        raise ValueError(f"the column {quote(name)} has no values at all; leave it out with --ignore")
    if len(values) == 1 and not column.is_missing().any():
        raise ConstantColumn(
            f"the column {quote(name)} is {values[0]} in every row, and tells nothing about the target; leave it out "
            "with --ignore, or all such columns with --ignore-constant"
        )
    return ""


def write(recipe: Recipe, run: Path) -> None:
    """Put it into the folder of a run that is to be made."""
    content = {"format": VERSION, "isotherm": __version__, **asdict(recipe)}
    files.write(run / HIDDEN / FILE, [json.dumps(content, indent=1, ensure_ascii=False).encode()])


def is_there(run: Path) -> bool:
    return (run / HIDDEN / FILE).is_file()


def read(run: Path) -> Recipe:
    """Return the recipe of a run; a ValueError if the folder has none, or one that is not whole."""
    path = run / HIDDEN / FILE
    if not run.is_dir():
        why = "is a file" if run.exists() else "is not there"
        raise ValueError(f"RUN must be a folder made by `isotherm fit`, got {str(run)!r}, which {why}")
    if not path.is_file():
        raise ValueError(f"RUN must be a folder made by `isotherm fit`, and {run} was not: it has no {HIDDEN}/{FILE}")
    try:
        content = json.loads(path.read_bytes())
        if content.get("format") != VERSION:
            again = "; its priors and units were others: fit the table again" if content.get("format") == 1 else ""
            raise ValueError(f"its format is {content.get('format')!r}, and this version reads {VERSION}{again}")
        recipe = _from_json(content)
        _check(recipe)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise ValueError(f"{path} is damaged or from another version: {fault}") from None
    return recipe


def _from_json(content: Json) -> Recipe:
    """Make a recipe of JSON, in which tuples are lists and dataclasses are dicts."""
    whole = {each.name: content[each.name] for each in fields(Recipe)}
    parts = {"target": _make(TargetColumn, whole["target"]), "source": _make(TableSource, whole["source"])}
    columns = tuple(_make(STORED_PLANS[each["kind"]], each) for each in whole["columns"])
    return _make(Recipe, whole | parts | {"columns": columns})


def _make(kind: type[T], content: Json) -> T:
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in content.items()})


def _check(recipe: Recipe) -> None:
    """Refuse what cannot be computed with."""
    texts = [*recipe.target.classes, *(level for column in recipe.levels for level in column.levels)]
    numbers = [recipe.prior_scale, recipe.target.mean, recipe.target.scale, *recipe.target.base]
    numbers += [value for column in recipe.numbers for value in (column.mean, column.scale)]
    numbers += [count for column in recipe.levels for count in column.counts]
    if recipe.model not in MODELS or recipe.missing not in RULES or recipe.target.family not in FAMILIES:
        raise ValueError(f"model {recipe.model!r}, missing {recipe.missing!r}, family {recipe.target.family!r}")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a level is no text")
    if not all(isinstance(value, int | float) and abs(value) < 1e300 for value in numbers):
        raise ValueError("a mean, scale or count is no finite number")
    if any(len(column.levels) != len(column.counts) for column in recipe.levels):
        raise ValueError("levels and counts differ in length")

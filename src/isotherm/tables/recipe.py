"""What was done with each column of a table, so that the same can be done with new rows: JSON, in the run's folder.

It holds everything that a prediction needs beside the draws, and nothing in it is executed.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from isotherm.lib import files
from isotherm.lib.types import Json
from isotherm.lib.version import __version__
from isotherm.store.folder import HIDDEN

FILE = "table.json"
VERSION = 1
MODELS = ("linear", "logistic", "softmax", "poisson", "drbm", "mlp")
RULES = ("error", "mean", "indicator", "drop")
FAMILIES = ("gaussian", "bernoulli", "categorical", "poisson")
T = TypeVar("T")


@dataclass(frozen=True)
class NumberColumn:
    """x becomes (x − mean)/scale, and 0 where it is missing; `indicator`: being missing has a coefficient too."""

    name: str
    mean: float
    scale: float
    missing: int = 0
    indicator: bool = False


@dataclass(frozen=True)
class LevelColumn:
    """Each level has an effect; one that is missing or unknown has none. `counts` are rows by level."""

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    missing: int = 0
    truth: bool = False


@dataclass(frozen=True)
class Target:
    """`classes` for classes, in the order of their codes; `mean` and `scale` of a number. `base` is the predictor of
    the average row. `threshold` is what follows the column's name, as in "delay > 15"."""

    name: str
    family: str
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0
    base: tuple[float, ...] = (0.0,)
    threshold: str = ""


@dataclass(frozen=True)
class Source:
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
    model: str
    missing: str
    prior_scale: float
    hidden: int
    target: Target
    numbers: tuple[NumberColumn, ...]
    levels: tuple[LevelColumn, ...]
    source: Source
    interval: float = 0.95
    notes: tuple[str, ...] = field(default=())

    @property
    def columns(self) -> tuple[NumberColumn | LevelColumn, ...]:
        return *self.numbers, *self.levels

    @property
    def inputs(self) -> list[str]:
        """The columns of the numbers' matrix: each column, and then whether it is missing, where that counts."""
        indicators = [f"{column.name} is missing" for column in self.numbers if column.indicator]
        return [column.name for column in self.numbers] + indicators

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where in the vector of all effects those of each column begin, and its length."""
        ends = [0]
        for column in self.levels:
            ends.append(ends[-1] + len(column.levels))
        return tuple(ends)


def write(recipe: Recipe, run: Path) -> None:
    """Put it into the folder of a run that is to be made."""
    content = {"format": VERSION, "isotherm": __version__, **asdict(recipe)}
    files.write(run / HIDDEN / FILE, [json.dumps(content, indent=1, ensure_ascii=False).encode()])


def is_there(run: Path) -> bool:
    return (run / HIDDEN / FILE).is_file()


def read(run: Path) -> Recipe:
    """The recipe of a run; a ValueError if the folder has none, or one that is not whole."""
    path = run / HIDDEN / FILE
    if not run.is_dir():
        raise ValueError(f"RUN must be a folder made by `isotherm fit`, got {str(run)!r}, which is not there")
    if not path.is_file():
        raise ValueError(f"RUN must be a folder made by `isotherm fit`, and {run} was not: it has no {HIDDEN}/{FILE}")
    try:
        content = json.loads(path.read_bytes())
        if content.get("format") != VERSION:
            raise ValueError(f"its format is {content.get('format')!r}, and this version reads {VERSION}")
        recipe = _recipe(content)
        _check(recipe)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise ValueError(f"{path} is damaged or from another version: {fault}") from None
    return recipe


def _recipe(content: Json) -> Recipe:
    whole = {each.name: content[each.name] for each in fields(Recipe)}
    whole |= {
        "target": _made(Target, whole["target"]),
        "source": _made(Source, whole["source"]),
        "numbers": tuple(_made(NumberColumn, each) for each in whole["numbers"]),
        "levels": tuple(_made(LevelColumn, each) for each in whole["levels"]),
    }
    return _made(Recipe, whole)


def _made(kind: type[T], content: Json) -> T:
    """A dataclass from JSON, in which tuples are lists."""
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in content.items()})


def _check(recipe: Recipe) -> None:
    """That what comes from a file can be computed with."""
    texts: list[Any] = [*recipe.target.classes, *(level for column in recipe.levels for level in column.levels)]
    numbers: list[Any] = [recipe.prior_scale, recipe.target.mean, recipe.target.scale, *recipe.target.base]
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

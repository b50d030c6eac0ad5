"""From the target's column to numbers and the family they are of; the model, if it is not given, is guessed from it."""

import operator
import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotherm.models.priors import standard_units
from isotherm.tables.columns import MISSING, WORDS, Levels, Numbers, TableColumn, absent, as_text, quote

TARGET_CLASSES = 100
# Whole numbers are guessed to be classes if there are no more than these, each in this share of the rows or more.
GUESSED_CLASSES = 20
GUESSED_SHARE = 0.02
GUESSED_COUNT = 1000  # of a target that is guessed to be counts
COMPARISONS = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}
THRESHOLD = re.compile(r"(.+?)\s*(>=|<=|==|>|<)\s*(\S+)")
FAMILIES = ("gaussian", "bernoulli", "categorical", "poisson")
CLASSIFIERS = ("logistic", "softmax", "drbm")


@dataclass(frozen=True)
class TargetColumn:
    """`classes` for classes, in the order of their codes; `mean` and `scale` of a number. `base` is the predictor of
    the average row. `threshold` is what follows the column's name, as in "delay > 15"."""

    name: str
    family: str
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0
    base: tuple[float, ...] = (0.0,)
    threshold: str = ""

    @property
    def words(self) -> str:
        return f"{self.name} {self.threshold}".strip()

    @property
    def several(self) -> tuple[str, ...]:
        """The classes, if each has a predictor of its own."""
        return self.classes if self.family == "categorical" else ()


class Wanted(NamedTuple):
    """What `--target` says: a column, or a comparison of one with a number."""

    name: str
    comparison: str = ""
    bound: float = 0.0

    @property
    def words(self) -> str:
        return f"{self.comparison} {self.bound:g}" if self.comparison else ""


def parse(text: str, names: list[str], source: str) -> Wanted:
    if text in names:
        return Wanted(text)
    match = THRESHOLD.fullmatch(text)
    if match and match[1] in names:
        try:
            return Wanted(match[1], match[2], float(match[3]))
        except ValueError:
            raise ValueError(f"--target must compare with a number, got {quote(text)}") from None
    raise ValueError(f"--target names the column {quote(text)}, {absent(text, names, source)}")


def compare(column: TableColumn, wanted: Wanted) -> TableColumn:
    """Return the target's column; where it is a comparison, whether it holds."""
    if not wanted.comparison:
        return column
    if not isinstance(column, Numbers):
        raise ValueError(f"--target compares {quote(wanted.name)} with a number, and the column does not hold numbers")
    holds = COMPARISONS[wanted.comparison](column.values, wanted.bound)
    return Levels(np.where(column.is_missing(), MISSING, holds).astype(np.int32), ("false", "true"), truth=True)


def guess(name: str, column: TableColumn) -> tuple[str, str]:
    """Return a model, and why, in words."""
    if isinstance(column, Levels):
        count = np.count_nonzero(column.counts())
        return ("logistic" if count <= 2 else "softmax"), f"{quote(name)} has {count:,} classes"
    if not isinstance(column, Numbers):
        raise ValueError(f"the target {quote(name)} holds {WORDS[column.kind]}; it must hold numbers or classes")
    values, counts = np.unique(column.values[~np.isnan(column.values)], return_counts=True)
    whole = bool((values == np.round(values)).all())
    if len(values) == 2:
        return "logistic", f"{quote(name)} has two values, {values[0]:g} and {values[1]:g}"
    share = counts.min() / counts.sum() if len(values) else 0.0
    if whole and 1 < len(values) <= GUESSED_CLASSES and np.ptp(values) < 2 * len(values) and share >= GUESSED_SHARE:
        return "softmax", f"{quote(name)} has {len(values)} values, each in {share:.0%} of the rows or more"
    if whole and len(values) and values[0] == 0 and values[-1] <= GUESSED_COUNT:
        return "poisson", f"{quote(name)} has whole numbers from 0 to {values[-1]:g}"
    return "linear", f"{quote(name)} has {len(values):,} different numbers"


def make(wanted: Wanted, column: TableColumn, model: str) -> TargetColumn:
    """Plan how a target is encoded, from the rows that are learned from; none is missing there."""
    name = wanted.name
    is_classes = model in CLASSIFIERS or (model == "mlp" and guess(name, column)[0] in CLASSIFIERS)
    if is_classes:
        return _classes(wanted, column, model)
    if not isinstance(column, Numbers):
        held = WORDS[column.kind]
        raise ValueError(f"--model {model} needs a target of numbers, and {quote(name)} holds {held}; try logistic")
    values = column.values
    if np.ptp(values) == 0:
        raise ValueError(f"the target {quote(name)} is {values[0]:g} in every row: there is nothing to predict")
    if model == "poisson":
        if (values < 0).any() or (values != np.round(values)).any():
            wrong = values[(values < 0) | (values != np.round(values))][0]
            raise ValueError(f"--model poisson needs a target of counts 0, 1, 2, …, and {quote(name)} holds {wrong:g}")
        return TargetColumn(name, "poisson", base=(float(np.log(values.mean())),))
    mean, scale = standard_units(values)
    return TargetColumn(name, "gaussian", mean=float(mean), scale=float(scale))


def _classes(wanted: Wanted, column: TableColumn, model: str) -> TargetColumn:
    name, classes = wanted.name, class_names(column)
    counts = np.bincount(class_codes(column, classes), minlength=len(classes))
    if len(classes) < 2:
        raise ValueError(f"the target {quote(name)} has one class only, {quote(classes[0])}: nothing to predict")
    if len(classes) > TARGET_CLASSES:
        raise ValueError(
            f"--model {model} needs a target of at most {TARGET_CLASSES} classes, and {quote(name)} has "
            f"{len(classes):,} different values"
        )
    if model == "logistic" and len(classes) > 2:
        raise ValueError(f"--model logistic needs two classes, {quote(name)} has {len(classes)}; use softmax")
    log_shares = np.log(counts / counts.sum())
    if len(classes) == 2 and model in ("logistic", "mlp"):
        odds = float(log_shares[1] - log_shares[0])
        return TargetColumn(name, "bernoulli", classes, base=(odds,), threshold=wanted.words)
    base = tuple(float(value) for value in log_shares - log_shares.mean())
    return TargetColumn(name, "categorical", classes, base=base, threshold=wanted.words)


def class_names(column: TableColumn) -> tuple[str, ...]:
    """Return the classes that occur, in order."""
    if isinstance(column, Levels):
        return tuple(column.names[code] for code in np.flatnonzero(column.counts()))
    assert isinstance(column, Numbers)
    return tuple(as_text(value) for value in np.unique(column.values[~np.isnan(column.values)]))


def class_codes(column: TableColumn, classes: tuple[str, ...]) -> NDArray[np.int64]:
    """Return codes into `classes`; −1 for any other class."""
    place = {name: code for code, name in enumerate(classes)}
    if isinstance(column, Levels):
        return np.array([*(place.get(name, -1) for name in column.names), -1], np.int64)[column.values]
    assert isinstance(column, Numbers)
    values, codes = np.unique(column.values, return_inverse=True)
    return np.array([place.get(as_text(value), -1) for value in values], np.int64)[codes]


def encode(target: TargetColumn, column: TableColumn) -> NDArray[np.generic]:
    """Return what the family takes: codes of classes, counts, or numbers in standard units."""
    if target.classes:
        codes = class_codes(column, target.classes)
        return codes.astype(np.float32 if target.family == "bernoulli" else np.int32)
    if not isinstance(column, Numbers):
        raise ValueError(f"the target {quote(target.name)} must hold numbers, as in the table of the run")
    return ((column.values - target.mean) / target.scale).astype(np.float32)

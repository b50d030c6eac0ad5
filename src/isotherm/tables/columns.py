"""A table in memory: columns of numbers, of levels (text) and of times, whatever file they came from."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

LONGEST = 60  # characters of a name in a sentence
LONGEST_LEVEL = 1000  # characters; more is no category
MISSING = -1  # the code of a level that is not there


@dataclass(frozen=True)
class Numbers:
    """`values` (n,), NaN where one is missing; `whole`: the file says that they are integers."""

    values: NDArray[np.float64]
    whole: bool = False

    def is_missing(self) -> NDArray[np.bool_]:
        return np.isnan(self.values)

    def take(self, rows: NDArray[np.int64]) -> "Numbers":
        return Numbers(self.values[rows], self.whole)


@dataclass(frozen=True)
class Levels:
    """`codes` (n,) into `names`, which are sorted, MISSING where one is missing; `truth`: false and true."""

    codes: NDArray[np.int32]
    names: tuple[str, ...]
    truth: bool = False

    def is_missing(self) -> NDArray[np.bool_]:
        return self.codes == MISSING

    def take(self, rows: NDArray[np.int64]) -> "Levels":
        return Levels(self.codes[rows], self.names, self.truth)


@dataclass(frozen=True)
class Times:
    """`seconds` (n,) since 1970, in the time of the table; NaN where one is missing."""

    seconds: NDArray[np.float64]

    def is_missing(self) -> NDArray[np.bool_]:
        return np.isnan(self.seconds)

    def take(self, rows: NDArray[np.int64]) -> "Times":
        return Times(self.seconds[rows])


Column: TypeAlias = Numbers | Levels | Times
KINDS = {"number": Numbers, "text": Levels, "truth": Levels, "time": Times}


@dataclass(frozen=True)
class Table:
    """`source` is what sentences call it."""

    source: str
    columns: Mapping[str, Column]
    rows: int

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def take(self, rows: NDArray[np.int64]) -> "Table":
        return Table(self.source, {name: column.take(rows) for name, column in self.columns.items()}, len(rows))

    def require(self, names: Iterable[str], option: str) -> None:
        """That these columns, named by an option, are there."""
        for name in names:
            if name not in self.columns:
                raise ValueError(f"{option} names the column {quoted(name)}, {absent(name, self.columns, self.source)}")


def absent(name: str, names: Iterable[str], source: str) -> str:
    """The rest of a sentence about a name that is not among these, with the nearest one."""
    names = list(names)
    near = difflib.get_close_matches(name, names, 1, 0.6)
    listed = ", ".join(quoted(each) for each in names[:12]) + (", …" if len(names) > 12 else "")
    hint = f"did you mean {quoted(near[0])}?" if near else f"its columns are {listed}"
    return f"which is not in {source}; {hint}"


def quoted(text: str) -> str:
    """A text from a file inside a sentence: shortened, and with nothing in it that moves the cursor."""
    return f'"{plain(text)}"'


def plain(text: str, longest: int = LONGEST) -> str:
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in short)


def as_text(number: float) -> str:
    """A number as the name of a level or a class: exact, and without a decimal point if it is whole."""
    return f"{number:.0f}" if number == round(number) and abs(number) < 2**53 else repr(float(number))


def make_levels(texts: NDArray[np.int64], names: Iterable[str], na: Iterable[str], truth: bool = False) -> Levels:
    """From indices into names in any order, MISSING among them; what `na` says is missing too."""
    all_names, missing = list(names), set(na)
    kept = sorted(name for name in all_names if name not in missing)
    place = {name: code for code, name in enumerate(kept)}
    codes = np.array([place.get(name, MISSING) for name in all_names] + [MISSING], np.int32)
    return Levels(codes[texts], tuple(kept), truth)  # index −1 is the last


def numbers_in_text(name: str, column: Levels, source: str) -> Column:
    """A column of text, unless most of it is numbers: then all of it must be."""
    values = np.array([_number(text) for text in column.names], np.float64)
    counts = np.bincount(column.codes[column.codes >= 0], minlength=len(values))
    bad = np.isnan(values)
    if not len(values) or counts[bad].sum() > 0.5 * counts.sum():
        return column
    if not bad.any():
        return Numbers(np.append(values, np.nan)[column.codes])
    row = int(np.argmax(np.isin(column.codes, np.flatnonzero(bad))))
    wrong = column.names[column.codes[row]]
    raise ValueError(
        f"{source}: the column {quoted(name)} holds text where numbers belong: {quoted(wrong)} in row {row + 1:,} "
        f"({counts[bad].sum():,} of {counts.sum():,} entries are no numbers). Correct it, or say that {quoted(wrong)} "
        f"stands for a missing value (--na), or take the column as text (--categorical)"
    )


def _number(text: str) -> float:
    try:
        return float(text.replace("_", "x"))
    except ValueError:
        return float("nan")

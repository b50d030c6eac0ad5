"""The kinds of columns that a table has in memory, whatever file it came from.

A kind says what a column holds, which rows lack a value, and which columns are learned from it; how those become
numbers for a model is in recipe.py.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray

from isotherm.lib.optional import extra

if TYPE_CHECKING:
    from pyarrow import ChunkedArray, DataType

NAME_LENGTH = 60  # characters of a name in a sentence, at most
LISTED = 4  # columns in a sentence
MISSING = -1  # the code of a level that is not there
DAY = 86400  # seconds
HOURS = tuple(f"{hour:02}" for hour in range(24))
WEEKDAYS = ("1 Monday", "2 Tuesday", "3 Wednesday", "4 Thursday", "5 Friday", "6 Saturday", "7 Sunday")
WORDS = {"number": "numbers", "text": "text", "truth": "true or false", "time": "dates"}  # by kind
ARROW = {"number": "double", "text": "string", "truth": "bool", "time": "timestamp[us]"}  # what Arrow calls its type


@dataclass(frozen=True)
class TableColumn:
    """`values` (n,), one for each row; NaN where one is missing, unless a kind says otherwise."""

    values: np.ndarray

    @property
    def kind(self) -> str:
        """What the column of a file must hold when it is read again, a key of `WORDS`."""
        raise NotImplementedError

    def is_missing(self) -> NDArray[np.bool_]:
        return np.isnan(self.values)

    def take(self, rows: NDArray[np.int64]) -> Self:
        return replace(self, values=self.values[rows])

    def parts(self, name: str) -> "dict[str, TableColumn]":
        """Return the columns that are learned from it, by name."""
        return {name: self}

    def extremes(self) -> list[str]:
        """Return two values that occur, in words; one if all are the same, none if there is none."""
        there = self.values[~self.is_missing()]
        return [f"{value:g}" for value in dict.fromkeys((there.min(), there.max()))] if there.size else []


@dataclass(frozen=True)
class Numbers(TableColumn):
    """Numbers; NaN where one is missing."""

    kind = "number"


@dataclass(frozen=True)
class Levels(TableColumn):
    """Codes into `names`, which are sorted; MISSING where one is missing. `truth`: false and true."""

    names: tuple[str, ...]
    truth: bool = False

    @property
    def kind(self) -> str:
        return "truth" if self.truth else "text"

    def is_missing(self) -> NDArray[np.bool_]:
        return np.asarray(self.values == MISSING)

    def counts(self) -> NDArray[np.int64]:
        """Return in how many rows each level is."""
        return np.bincount(self.values[self.values >= 0], minlength=len(self.names))

    def extremes(self) -> list[str]:
        return [quote(self.names[code]) for code in np.flatnonzero(self.counts())[:2]]


@dataclass(frozen=True)
class Times(TableColumn):
    """Seconds since 1970, in the time of the table; NaN where one is missing."""

    kind = "time"

    def parts(self, name: str) -> dict[str, TableColumn]:
        """Return the days (a number), the hour and the weekday (levels)."""
        missing = self.is_missing()
        seconds = np.where(missing, 0, self.values)
        hour, weekday = seconds % DAY // 3600, (seconds // DAY + 3) % 7  # the first of January 1970 was a Thursday
        return {
            name: Numbers(self.values / DAY),
            f"{name} (hour)": Levels(np.where(missing, MISSING, hour).astype(np.int32), HOURS),
            f"{name} (weekday)": Levels(np.where(missing, MISSING, weekday).astype(np.int32), WEEKDAYS),
        }


@dataclass(frozen=True)
class Frame:
    """A table in memory; `source` is what sentences call it."""

    source: str
    columns: Mapping[str, TableColumn]
    rows: int

    def __getitem__(self, name: str) -> TableColumn:
        return self.columns[name]

    def take(self, rows: NDArray[np.int64]) -> "Frame":
        return Frame(self.source, {name: column.take(rows) for name, column in self.columns.items()}, len(rows))

    def require(self, names: Iterable[str], option: str) -> None:
        """Raise a ValueError unless these columns, named by an option, are there."""
        for name in names:
            if name not in self.columns:
                raise ValueError(f"{option} names the column {quote(name)}, {absent(name, self.columns, self.source)}")


def absent(name: str, names: Iterable[str], source: str) -> str:
    """Return the rest of a sentence about a name that is not among these, with the nearest one."""
    names = list(names)
    shown = ", ".join(quote(each) for each in names[:12]) + (", …" if len(names) > 12 else "")
    near = difflib.get_close_matches(name, names, 1, 0.6)
    return f"which is not in {source}; {f'did you mean {quote(near[0])}?' if near else f'its columns are {shown}'}"


def quote(text: str) -> str:
    """Return a text from a file for a sentence: shortened, and with nothing in it that moves the cursor."""
    return f'"{plain(text)}"'


def plain(text: str) -> str:
    short = text if len(text) <= NAME_LENGTH else f"{text[: NAME_LENGTH - 1]}…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in short)


def join_names(words: Sequence[str]) -> str:
    return ", ".join(words[:LISTED]) + (f" and {len(words) - LISTED} more" if len(words) > LISTED else "")


def as_text(number: float) -> str:
    """Return a number as the name of a level or a class: exact, and without a decimal point if it is whole."""
    return f"{number:.0f}" if number == round(number) and abs(number) < 2**53 else repr(float(number))


def numbers_in_text(name: str, column: Levels, source: str) -> TableColumn:
    """Return a column of text as it is, unless most of it is numbers: then all of it must be."""
    values = np.array([_number(text) for text in column.names], np.float64)
    counts, bad = column.counts(), np.isnan(values)
    if not len(values) or counts[bad].sum() > 0.5 * counts.sum():
        return column
    if not bad.any():
        return Numbers(np.append(values, np.nan)[column.values])
    row = int(np.argmax(np.isin(column.values, np.flatnonzero(bad))))
    wrong = quote(column.names[column.values[row]])
    raise ValueError(
        f"{source}: the column {quote(name)} holds text where numbers belong: {wrong} in row {row + 1:,} "
        f"({counts[bad].sum():,} of {counts.sum():,} entries are no numbers). Correct it, or say that {wrong} "
        f"stands for a missing value (--na), or take the column as text (--categorical)"
    )


def _number(text: str) -> float:
    try:
        return float(text.replace("_", "x"))
    except ValueError:
        return float("nan")


def pyarrow() -> ModuleType:
    with extra("tables", "reading CSV and Parquet files"):
        import pyarrow
    return pyarrow


def from_arrow(name: str, values: "ChunkedArray", source: str, kind: str | None, na: Iterable[str]) -> TableColumn:
    """Make a column of Arrow's; `kind` is what it must be, if it must be something."""
    pa = pyarrow()
    types = pa.types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if types.is_null(values.type) and kind is None:
        return Numbers(np.full(len(values), np.nan))
    if kind is not None:
        values = _cast(name, values, source, kind)
    if types.is_boolean(values.type):
        return _levels(values.cast(pa.string()), na, truth=True)
    if types.is_integer(values.type) or types.is_floating(values.type) or types.is_decimal(values.type):
        return Numbers(_floats(values))
    if types.is_timestamp(values.type) or types.is_date(values.type):
        return Times(_floats(values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())) / 1e6)
    if types.is_time(values.type) or types.is_duration(values.type):  # in seconds
        fine = pa.time64("us") if types.is_time(values.type) else pa.duration("us")
        return Numbers(_floats(values.cast(fine, safe=False).cast(pa.int64())) / 1e6)
    if is_text(values.type):
        levels = _levels(values, na)
        return levels if kind == "text" else numbers_in_text(name, levels, source)
    if types.is_binary(values.type) or types.is_large_binary(values.type):
        raise ValueError(f"{source}: the column {quote(name)} is not text in UTF-8; convert the file to UTF-8")
    raise ValueError(
        f"{source}: the column {quote(name)} holds {values.type}, which is neither numbers nor text nor dates; leave "
        "it out with --ignore"
    )


def arrow_type(kind: str) -> "DataType":
    """Return Arrow's type of a column that is read as this kind."""
    return cast("DataType", pyarrow().type_for_alias(ARROW[kind]))


def is_text(kind: "DataType") -> bool:
    types = pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _cast(name: str, values: "ChunkedArray", source: str, kind: str) -> "ChunkedArray":
    pa, wanted = pyarrow(), arrow_type(kind)
    try:
        if kind == "truth" and is_text(values.type):
            from pyarrow import compute

            values = compute.utf8_lower(values)
        return values if values.type == wanted else values.cast(wanted)
    except pa.ArrowException as fault:
        raise ValueError(
            f"{source}: the column {quote(name)} must hold {WORDS[kind]}, as in the table of the run, and holds "
            f"{values.type}: {one_line(fault)}"
        ) from None


def _floats(values: "ChunkedArray") -> NDArray[np.float64]:
    return np.array(values.cast(pyarrow().float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _levels(values: "ChunkedArray", na: Iterable[str], truth: bool = False) -> Levels:
    """Make sorted levels of texts; what `na` lists is missing too."""
    encoded = values.combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):  # still chunked: there are several chunks' worth
        encoded = encoded.combine_chunks()
    texts, missing = encoded.dictionary.to_pylist(), set(na)
    names = sorted(text for text in texts if text not in missing)
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([*(place.get(text, MISSING) for text in texts), MISSING], np.int32)  # the last is index −1
    return Levels(codes[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)], tuple(names), truth)


def one_line(fault: BaseException) -> str:
    words = " ".join(str(fault).split())
    return words if len(words) <= 200 else f"{words[:199]}…"

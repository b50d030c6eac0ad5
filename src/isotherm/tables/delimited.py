"""CSV, TSV and the like, read by pyarrow: quoted cells, compressed files, missing values by their usual names."""

import bz2
import csv as standard_csv
import gzip
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from isotherm.tables.arrow import WORDS, one_line, pyarrow
from isotherm.tables.columns import plain, quoted

LONGEST_LINE = 16 << 20  # bytes
MOST_COLUMNS = 20_000
DELIMITERS = ",;\t|"
DECIMALS = {point: re.compile(rf"\s*[-+]?\d+[{point}]\d+([eE][-+]?\d+)?\s*") for point in ",."}
LOOKED_AT = 1000  # rows, for the decimal point
TOO_LONG = f"has a line of more than {LONGEST_LINE >> 20} MB, which is no row of a table"


class Form(NamedTuple):
    """How a file is written: the character between cells, the decimal point, and the columns' names."""

    mark: str
    point: str
    names: list[str]


def read_csv(
    path: Path,
    delimiter: str | None = None,
    kinds: Mapping[str, str] | None = None,
    na: Iterable[str] = (),
    verbatim: bool = False,
) -> Any:
    """An Arrow table of all rows. `kinds` says what some columns must be; any other is what all of its entries can be.
    `verbatim`: everything stays the text that it is."""
    pa = pyarrow()
    from pyarrow import csv

    mark, point, names = header(path, delimiter)
    types = {"number": pa.float64(), "text": pa.string(), "time": pa.timestamp("s"), "truth": pa.bool_()}
    asked = {name: types[kind] for name, kind in (kinds or {}).items()}
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()) if verbatim else asked,
        null_values=[] if verbatim else [*csv.ConvertOptions().null_values, *na],
        strings_can_be_null=not verbatim,
        decimal_point=point,
    )
    options = csv.ParseOptions(delimiter=mark, newlines_in_values=True)

    def parse(use_threads: bool) -> Any:
        read = csv.ReadOptions(block_size=LONGEST_LINE, use_threads=use_threads)
        return csv.read_csv(path, read_options=read, parse_options=options, convert_options=convert)

    try:
        table = parse(True)
    except (pa.ArrowException, UnicodeDecodeError) as fault:
        raise ValueError(f"{path} {_fault(fault, parse, names, kinds or {})}") from None
    if not table.num_rows:
        raise ValueError(f"{path} has a header and no rows")
    return table.rename_columns(names)


def header(path: Path, delimiter: str | None) -> Form:
    """The form of a file, by its first rows. What separates cells is, unless given, what the first line has most."""
    with opened(path) as file:
        start = file.read(LONGEST_LINE)
    if not start.strip():
        raise ValueError(f"{path} is empty")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{path} is text in UTF-16; save it as UTF-8")
    try:
        text = start.decode("utf-8-sig", "ignore")
        line = next(each for each in io.StringIO(text) if each.strip())
        mark = delimiter or max(DELIMITERS, key=line.count)
        rows = (row for row in standard_csv.reader(io.StringIO(text, newline=""), delimiter=mark) if row)
        names = next(rows)
    except standard_csv.Error:
        raise ValueError(f"{path} {TOO_LONG}") from None
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"{path} must have at most {MOST_COLUMNS:,} columns, and has {len(names):,}")
    names = [name or f"column {place}" for place, name in enumerate(names, 1)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{path} has more than one column named {quoted(twice[0])}; rename all but one")
    return Form(mark, decimal_point(rows) if mark != "," else ".", names)


def decimal_point(rows: Iterable[list[str]]) -> str:
    """A comma, if the first rows have numbers with one, as 3,14, and none with a point."""
    try:
        cells = {cell for row in itertools.islice(rows, LOOKED_AT) for cell in row}
    except standard_csv.Error:  # a cell that is too long: pyarrow says so
        return "."
    found = {point for point, number in DECIMALS.items() if any(map(number.fullmatch, cells))}
    return "," if found == {","} else "."


def opened(path: Path) -> IO[bytes]:
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
    file: IO[bytes] = openers.get(path.suffix, open)(path, "rb")
    return file


def _fault(fault: Exception, parse: Callable[[bool], Any], names: list[str], kinds: Mapping[str, str]) -> str:
    """The rest of a sentence about what is wrong with a file, by what pyarrow says of it."""
    words = str(fault)
    if "straddl" in words or "block size" in words:
        return TOO_LONG
    if "Expected" in words and "columns, got" in words:
        try:  # once more, in order, which gives the row's number
            parse(False)
        except pyarrow().ArrowInvalid as again:
            words = str(again)
        row = words.partition("Row #")[2].partition(":")[0]
        got, text = words.partition("columns, got ")[2].split(": ", 1)
        return (
            f"has {len(names)} columns in its header and {got} in row {int(row) - 1 if row else '?'}: "
            f"{quoted(text)}. Correct that row; if cells are not separated by what the header has most, say --delimiter"
        )
    if "In CSV column #" in words:
        place, _, value = words.partition("In CSV column #")[2].partition(":")
        name = names[int(place)]
        value = value.partition("invalid value ")[2] or value
        return (
            f"has {plain(value)} in the column {quoted(name)}, which must hold {WORDS.get(kinds.get(name, ''), 'text')}"
        )
    if "utf" in words.lower():
        return "is not text in UTF-8; convert it to UTF-8"
    return f"cannot be read as CSV: {one_line(fault)}"

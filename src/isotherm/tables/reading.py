"""A file as a table, by what it begins with: Parquet, .npz, LIBSVM text, or CSV, which pyarrow reads."""

import bz2
import csv as standard_csv
import gzip
import io
import itertools
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

import numpy as np

from isotherm.lib.optional import extra
from isotherm.tables.columns import (
    WORDS,
    Frame,
    Levels,
    Numbers,
    TableColumn,
    absent,
    arrow_type,
    from_arrow,
    is_text,
    one_line,
    plain,
    pyarrow,
    quote,
)  # fmt: skip

if TYPE_CHECKING:
    from pyarrow import Array, Table

LIBSVM_LINE = re.compile(rb"\s*[-+\d.eE]+(,[-+\d.eE]+)*(\s+qid:\d+)?(\s+\d+:[-+\d.eEnaif]+)+\s*(#.*)?")
TABLE_COLUMNS = 20_000
LABEL = "label"  # what the target of a LIBSVM file is called
DENSE_ENTRIES = 1 << 30  # of a sparse matrix that is made dense: 4 GB
START_BYTES = 1 << 16  # by which the type of a file is known
LEVEL_LENGTH = 1000  # characters; a longer text is no category
LINE_BYTES = 16 << 20
TOO_LONG = f"has a line of more than {LINE_BYTES >> 20} MB, which is no row of a table"
DELIMITERS = ",;\t|"
DECIMALS = {point: re.compile(rf"\s*[-+]?\d+[{point}]\d+([eE][-+]?\d+)?\s*") for point in ",."}
DECIMAL_ROWS = 1000  # by which the decimal point is known


def read(
    path: Path,
    *,
    kinds: Mapping[str, str] | None = None,
    na: Iterable[str] = (),
    delimiter: str | None = None,
    ignore: Iterable[str] = (),
    only: Iterable[str] | None = None,
    features: int = 0,
) -> Frame:
    """Read all columns but those ignored, or `only` these. `kinds` says what some columns must be (a key of `WORDS`),
    `na` which texts stand for a missing value, beside the usual ones, `features` how many columns a LIBSVM file must
    have at least."""
    kinds, na, file_type = dict(kinds or {}), tuple(na), type_of(path)
    table = arrow_table(path, file_type, delimiter, kinds, na, features)
    names = table.column_names
    unwanted = set(ignore)
    needed = [name for name in names if name not in unwanted] if only is None else list(only)
    if file_type == "npz":  # text is what it is there
        kinds = {name: "text" for name in names if is_text(table.column(name).type)} | kinds
    columns = {
        name: from_arrow(name, table.column(name), str(path), kinds.get(name), na) for name in names if name in needed
    }
    for name in sorted(unwanted - set(names)):
        raise ValueError(f"--ignore names the column {quote(name)}, {absent(name, names, str(path))}")
    for name in needed:
        if name not in columns:
            raise ValueError(f"the run was made with the column {quote(name)}, {absent(name, names, str(path))}")
    rows = max((len(column.values) for column in columns.values()), default=0)
    if not rows:
        raise ValueError(f"{path} is empty")
    for name, column in columns.items():
        check(str(path), name, column)
    return Frame(str(path), columns, rows)


def type_of(path: Path) -> str:
    """Return "parquet", "npz", "libsvm" or "csv"."""
    if not path.exists():
        raise ValueError(f"there is no file {str(path)!r}")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; a table is a file: CSV, Parquet, .npz or LIBSVM text")
    try:
        with open_text(path) as file:
            start = file.read(START_BYTES)
    except (OSError, EOFError) as fault:
        raise ValueError(f"{path} cannot be read: {fault}") from None
    if not start:
        raise ValueError(f"{path} is empty")
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"PK\x03\x04"):
        return "npz"
    first = next((line for line in start.splitlines() if line.strip()), b"")
    return "libsvm" if LIBSVM_LINE.fullmatch(first) else "csv"


def arrow_table(
    path: Path,
    file_type: str,
    delimiter: str | None = None,
    kinds: Mapping[str, str] | None = None,
    na: Iterable[str] = (),
    features: int = 0,
) -> "Table":
    if file_type == "parquet":
        return read_parquet(path)
    if file_type == "npz":
        return read_npz(path)
    return read_libsvm(path, features) if file_type == "libsvm" else read_csv(path, delimiter, kinds, na)


def check(source: str, name: str, column: TableColumn) -> None:
    """Refuse numbers that are not finite, and texts that cannot be the name of a level."""
    if isinstance(column, Numbers) and np.isinf(column.values).any():
        row = int(np.argmax(np.isinf(column.values)))
        raise ValueError(
            f"{source}: the column {quote(name)} holds {column.values[row]} in row {row + 1:,}; numbers must be finite"
        )
    if isinstance(column, Levels) and (longest := max(map(len, column.names), default=0)) > LEVEL_LENGTH:
        raise ValueError(
            f"{source}: the column {quote(name)} holds a text of {longest:,} characters, which is no category "
            f"(at most {LEVEL_LENGTH:,}); leave the column out with --ignore"
        )


def read_parquet(path: Path) -> "Table":
    pa = pyarrow()
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path).read()
    except (pa.ArrowException, ValueError) as fault:
        raise ValueError(f"{path} is not a Parquet file that can be read: {one_line(fault)}") from None


def read_npz(path: Path) -> "Table":
    """Read a column for each array of one axis, and one for each column of an array of two: x[0], x[1], …"""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("it is another kind of zip file; a spreadsheet must be saved as CSV first")
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as fault:
        raise ValueError(f"{path} is not an .npz file of arrays of numbers and text: {fault}") from None
    columns: dict[str, Array] = {}
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise ValueError(f"{path}: {quote(name)} must have one or two axes, got the shape {array.shape}")
        if array.ndim == 2 and array.shape[1] + len(columns) > TABLE_COLUMNS:
            raise ValueError(f"{path} must have at most {TABLE_COLUMNS:,} columns, and {quote(name)} alone has more")
        parts = {name: array} if array.ndim == 1 else {f"{name}[{i}]": part for i, part in enumerate(array.T)}
        columns |= {part: _column(path, part, values) for part, values in parts.items()}
    if not columns:
        raise ValueError(f"{path} is empty")
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise ValueError(f"{path} must hold arrays of one length, got the lengths {sorted(lengths)}")
    return pyarrow().table(columns)


def _column(path: Path, name: str, values: np.ndarray) -> "Array":
    """Return Arrow's form of an array, in which NaN and empty texts are missing."""
    kind = values.dtype.kind
    if kind in "US":
        texts = values if kind == "U" else np.char.decode(values, "utf-8", "replace")
        return pyarrow().array(texts, mask=texts == "")
    if kind not in "fiubM":
        raise ValueError(f"{path}: {quote(name)} holds {values.dtype}, which is neither numbers nor text; leave it out")
    wanted = {"M": "datetime64[us]", "b": "bool"}.get(kind, "float64")
    return pyarrow().array(values.astype(wanted), from_pandas=True)


def read_libsvm(path: Path, features: int = 0) -> "Table":
    """Read `label`, and a column for each index, named by it; `features` of them or more."""
    with extra("estimators", "reading LIBSVM text"):
        from sklearn.datasets import load_svmlight_file

    try:
        x, y = load_svmlight_file(str(path), zero_based=False)
    except (ValueError, IndexError, OverflowError, EOFError) as fault:
        raise ValueError(f"{path} is not LIBSVM text (label index:value …): {fault}") from None
    wide = max(features, x.shape[1])
    if not len(y):
        raise ValueError(f"{path} is empty")
    if wide > TABLE_COLUMNS or wide * len(y) > DENSE_ENTRIES:
        raise ValueError(
            f"{path} has {len(y):,} rows and indices up to {wide:,}: too many for a table, which is not sparse "
            f"(at most {TABLE_COLUMNS:,} columns and {DENSE_ENTRIES:,} entries)"
        )
    dense = np.zeros((wide, len(y)))
    dense[: x.shape[1]] = x.T.toarray()
    return pyarrow().table({LABEL: y} | {str(index): column for index, column in enumerate(dense, 1)})


class CsvForm(NamedTuple):
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
) -> "Table":
    """Read all rows. `kinds` says what some columns must be; any other is what all of its entries can be.
    `verbatim`: everything stays the text that it is."""
    pa = pyarrow()
    from pyarrow import csv

    mark, point, names = csv_form(path, delimiter)
    asked = {name: arrow_type(kind) for name, kind in (kinds or {}).items()}
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()) if verbatim else asked,
        null_values=[] if verbatim else [*csv.ConvertOptions().null_values, *na],
        strings_can_be_null=not verbatim,
        decimal_point=point,
    )
    options = csv.ParseOptions(delimiter=mark, newlines_in_values=True)

    def parse(use_threads: bool) -> "Table":
        read = csv.ReadOptions(block_size=LINE_BYTES, use_threads=use_threads)
        return csv.read_csv(path, read_options=read, parse_options=options, convert_options=convert)

    try:
        table = parse(True)
    except (pa.ArrowException, UnicodeDecodeError) as fault:
        raise ValueError(f"{path} {_fault(fault, parse, names, kinds or {})}") from None
    if not table.num_rows:
        raise ValueError(f"{path} has a header and no rows")
    return table.rename_columns(names)


def csv_form(path: Path, delimiter: str | None) -> CsvForm:
    """Return the form of a file, by its first rows. Unless given, the delimiter is what the first line has most."""
    with open_text(path) as file:
        start = file.read(LINE_BYTES)
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
    if len(names) > TABLE_COLUMNS:
        raise ValueError(f"{path} must have at most {TABLE_COLUMNS:,} columns, and has {len(names):,}")
    names = [name or f"column {place}" for place, name in enumerate(names, 1)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{path} has more than one column named {quote(twice[0])}; rename all but one")
    return CsvForm(mark, decimal_point(rows) if mark != "," else ".", names)


def decimal_point(rows: Iterable[list[str]]) -> str:
    """Return a comma, if the first rows have numbers with one, as 3,14, and none with a point."""
    try:
        cells = {cell for row in itertools.islice(rows, DECIMAL_ROWS) for cell in row}
    except standard_csv.Error:  # a cell that is too long: pyarrow says so
        return "."
    found = {point for point, number in DECIMALS.items() if any(map(number.fullmatch, cells))}
    return "," if found == {","} else "."


def open_text(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return bz2.open(path) if path.suffix == ".bz2" else open(path, "rb")


def _fault(fault: Exception, parse: Callable[[bool], "Table"], names: list[str], kinds: Mapping[str, str]) -> str:
    """Return the rest of a sentence about what is wrong with a file, by what pyarrow says of it."""
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
            f"{quote(text)}. Correct that row; if cells are not separated by what the header has most, say --delimiter"
        )
    if "In CSV column #" in words:
        place, _, value = words.partition("In CSV column #")[2].partition(":")
        name = names[int(place)]
        value = value.partition("invalid value ")[2] or value
        return (
            f"has {plain(value)} in the column {quote(name)}, which must hold {WORDS.get(kinds.get(name, ''), 'text')}"
        )
    if "utf" in words.lower():
        return "is not text in UTF-8; convert it to UTF-8"
    return f"cannot be read as CSV: {one_line(fault)}"

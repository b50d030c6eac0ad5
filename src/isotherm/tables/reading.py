"""A file as a table, by what it begins with: Parquet, .npz, LIBSVM text, or CSV."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from isotherm.tables import arrays, arrow, delimited
from isotherm.tables.columns import KINDS, LONGEST_LEVEL, Column, Levels, Numbers, Table, Times, absent, as_text, quoted

LIBSVM_LINE = re.compile(rb"\s*[-+\d.eE]+(,[-+\d.eE]+)*(\s+qid:\d+)?(\s+\d+:[-+\d.eEnaif]+)+\s*(#.*)?")
WEEKDAYS = ("1 Monday", "2 Tuesday", "3 Wednesday", "4 Thursday", "5 Friday", "6 Saturday", "7 Sunday")
HOUR, WEEKDAY = PARTS = (" (hour)", " (weekday)")  # of a time, as columns of their own
DAY = 86400


def read(
    path: Path,
    *,
    kinds: Mapping[str, str] | None = None,
    na: Iterable[str] = (),
    delimiter: str | None = None,
    ignore: Iterable[str] = (),
    only: Iterable[str] | None = None,
    features: int = 0,
) -> Table:
    """All columns but those ignored, or `only` these.

    `kinds` says what some columns must be ("number", "text", "truth", "time"); `na` which texts stand for a missing
    value, beside the usual ones; `features` how many columns a LIBSVM file must have at least.
    """
    kinds, na, file_type = dict(kinds or {}), tuple(na), type_of(path)
    unwanted, needed = set(ignore), None if only is None else list(only)

    def is_used(name: str) -> bool:
        return name not in unwanted if needed is None else name in needed

    if file_type in ("npz", "libsvm"):
        columns = arrays.read_npz(path, na) if file_type == "npz" else arrays.read_libsvm(path, features)
        names = list(columns)
    else:
        found = arrow.read_parquet(path) if file_type == "parquet" else delimited.read_csv(path, delimiter, kinds, na)
        columns, names = arrow.columns(found, str(path), kinds, na, is_used), found.column_names
    for name in sorted(unwanted - set(names)):
        raise ValueError(f"--ignore names the column {quoted(name)}, {absent(name, names, str(path))}")
    for name in needed or ():
        if name not in columns:
            raise ValueError(f"the run was made with the column {quoted(name)}, {absent(name, names, str(path))}")
    columns = {name: column for name, column in columns.items() if is_used(name)}
    if file_type in ("npz", "libsvm"):
        columns = {name: as_asked(path, name, column, kinds.get(name)) for name, column in columns.items()}
    rows = max((len(column.is_missing()) for column in columns.values()), default=0)
    if not rows:
        raise ValueError(f"{path} is empty")
    for name, column in columns.items():
        check(str(path), name, column)
    return Table(str(path), columns, rows)


def type_of(path: Path) -> str:
    """ "parquet", "npz", "libsvm" or "csv"."""
    if not path.exists():
        raise ValueError(f"there is no file {str(path)!r}")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; a table is a file: CSV, Parquet, .npz or LIBSVM text")
    try:
        with delimited.opened(path) as file:
            start = file.read(1 << 16)
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


def as_asked(path: Path, name: str, column: Column, kind: str | None) -> Column:
    """Numbers as text where a category is asked for; otherwise a column must be what was asked for."""
    if kind == "text" and isinstance(column, Numbers):
        there = ~np.isnan(column.values)
        values, codes = np.unique(column.values[there], return_inverse=True)
        names = [as_text(value) for value in values]
        order = np.argsort(names)
        ranks = np.argsort(order)
        all_codes = np.full(len(there), -1, np.int32)
        all_codes[there] = ranks[codes]
        return Levels(all_codes, tuple(names[place] for place in order))
    found = next(each for each in arrow.WORDS if isinstance(column, KINDS[each]))
    if kind is not None and not isinstance(column, KINDS[kind]):
        raise ValueError(
            f"{path}: the column {quoted(name)} must hold {arrow.WORDS[kind]}, as in the table of the run, and holds "
            f"{arrow.WORDS[found]}"
        )
    return column


def check(source: str, name: str, column: Column) -> None:
    """Finite numbers, and texts that can be the name of a level."""
    if isinstance(column, Numbers) and np.isinf(column.values).any():
        row = int(np.argmax(np.isinf(column.values)))
        raise ValueError(
            f"{source}: the column {quoted(name)} holds {column.values[row]} in row {row + 1:,}; numbers must be finite"
        )
    if isinstance(column, Levels) and (longest := max(map(len, column.names), default=0)) > LONGEST_LEVEL:
        raise ValueError(
            f"{source}: the column {quoted(name)} holds a text of {longest:,} characters, which is no category "
            f"(at most {LONGEST_LEVEL:,}); leave the column out with --ignore"
        )


def with_times_as_columns(table: Table) -> Table:
    """Every column of times as three: the days (a number), the hour and the weekday (levels)."""
    columns: dict[str, Column] = {}
    for name, column in table.columns.items():
        columns |= times(name, column.seconds) if isinstance(column, Times) else {name: column}
    return Table(table.source, columns, table.rows)


def times(name: str, seconds: np.ndarray) -> dict[str, Column]:
    there = ~np.isnan(seconds)
    whole = np.where(there, seconds, 0)
    hour = (whole % DAY // 3600).astype(np.int32)
    weekday = ((whole // DAY + 3) % 7).astype(np.int32)  # the first of January 1970 was a Thursday
    return {
        name: Numbers(seconds / DAY),
        name + HOUR: Levels(np.where(there, hour, -1).astype(np.int32), tuple(f"{h:02}" for h in range(24))),
        name + WEEKDAY: Levels(np.where(there, weekday, -1).astype(np.int32), WEEKDAYS),
    }

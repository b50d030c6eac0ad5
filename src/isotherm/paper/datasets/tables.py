"""Tables in Parquet or CSV, converted once into arrays on disk that can be sampled without loading them.

An array becomes a file of NumPy's (.npy), in which a row is in one piece: of all forms it is the one of which single
rows are read fastest.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isotherm.lib import files
from isotherm.lib.optional import extra

Source = str | os.PathLike[str]
BLOCK_ROWS = 2**15
CSV_BYTES = 2**23  # of a CSV file that are read together
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*")


def convert(
    source: Source | Sequence[Source],
    folder: Source,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    *,
    dtype: Any = None,
    progress: bool = True,
) -> dict[str, np.ndarray]:
    """Convert Parquet or CSV files into a folder of arrays that `isotherm.fit` and `isotherm.sample` take as `data`.

    It is done once, a block of rows at a time, in little memory, and needs pyarrow (`pip install 'isotherm[tables]'`).
    The rows keep their order.

    Args:
        source: a file that ends with .parquet, .csv or .csv.gz, or several with the same columns, one after the other.
        folder: where the arrays go; it must not exist yet, and appears only when it is complete.
        columns: for each array its column, or a list of columns for an array with one column for each:
            `{"x": ["age", "income"], "y": "late"}`. Without it, each column is an array of its own.
        dtype: what the arrays are converted to, such as np.float32; without it, they are as in the table.
        progress: whether to show a bar (on a terminal only).

    Returns:
        The arrays, as `isotherm.datasets.open_arrays(folder)` gives them.
    """
    sources = [Path(each) for each in ([source] if isinstance(source, str | os.PathLike) else source)]
    folder = Path(folder)
    if folder.exists():
        raise FileExistsError(f"{folder} exists; open it with isotherm.datasets.open_arrays, or choose another name")
    if not sources:
        raise ValueError("source must name at least one file, got none")
    tables = [table_of(each) for each in sources]
    chosen = {name: name for name in tables[0].names} if columns is None else dict(columns)
    for name in chosen:
        if not NAME.fullmatch(name):
            raise ValueError(f"columns has the name {name!r}, and an array of that name cannot be a file; rename it")
    partial = folder.with_name(f"{folder.name}.{os.urandom(4).hex()}{files.PARTIAL}")
    partial.mkdir(parents=True)
    try:
        with ExitStack() as stack:
            total = sum(table.rows for table in tables) if all(table.rows for table in tables) else None
            add = stack.enter_context(_Bar(total, progress))
            written = {name: stack.enter_context(ArrayFile(partial / f"{name}.npy")) for name in chosen}
            for table in tables:
                for block in table.blocks(sorted({each for of in chosen.values() for each in _listed(of)}), dtype):
                    for name, of in chosen.items():
                        written[name].add(_joined(block, of, dtype, written[name].rows))
                    add(block.num_rows)
        if not next(iter(written.values())).rows:
            raise ValueError(f"{sources[0]} has no rows")
        os.replace(partial, folder)
        files.sync(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return open_arrays(folder)


def open_arrays(folder: Source) -> dict[str, np.ndarray]:
    """The arrays of a folder that `isotherm.datasets.convert` made, or of any folder of .npy files, by their names.

    What they hold stays on disk.
    """
    found = {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in sorted(Path(folder).glob("*.npy"))}
    if not found:
        raise FileNotFoundError(f"{folder} has no arrays: there is no file in it that ends with .npy")
    return found


class ArrayFile:
    """A .npy file that is written a block of rows at a time; the header gets the number of rows in the end."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows, self.like = path, 0, np.empty(0)
        self.file: BinaryIO = open(path, "xb")  # noqa: SIM115  # closed by __exit__

    def __enter__(self) -> "ArrayFile":
        return self

    def add(self, block: np.ndarray) -> None:
        if not self.rows:
            self.like = block[:0]
            self._write_header()
        if block.dtype != self.like.dtype:
            raise ValueError(
                f"{self.path.stem} is {self.like.dtype} in the first rows and {block.dtype} from row {self.rows} on; "
                "give a dtype, such as np.float32"
            )
        self.file.write(np.ascontiguousarray(block).data)
        self.rows += len(block)

    def _write_header(self) -> None:
        """NumPy leaves room in it for the number of rows to grow."""
        described = {"descr": np.lib.format.dtype_to_descr(self.like.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(self.file, described | {"shape": (self.rows, *self.like.shape[1:])})

    def __exit__(self, kind: object, *_: object) -> None:
        with self.file:
            if kind is None and self.rows:
                self.file.seek(0)
                self._write_header()
                self.file.flush()
                os.fsync(self.file.fileno())


class ParquetTable:
    def __init__(self, path: Path) -> None:
        from pyarrow.parquet import ParquetFile

        self.file = ParquetFile(path)
        self.names, self.rows = list(self.file.schema_arrow.names), self.file.metadata.num_rows

    def blocks(self, columns: list[str], dtype: Any) -> Iterator[Any]:
        _check_columns(columns, self.names)
        return self.file.iter_batches(BLOCK_ROWS, columns=columns)


class CsvTable:
    rows = 0  # not known before it is read

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as reader:
            self.names = list(reader.schema.names)

    def _opened(self, columns: list[str] | None = None, dtype: Any = None) -> Any:
        from pyarrow import csv, from_numpy_dtype

        types = None if dtype is None else {name: from_numpy_dtype(np.dtype(dtype)) for name in columns or []}
        options = csv.ConvertOptions(include_columns=columns, column_types=types)
        return csv.open_csv(self.path, csv.ReadOptions(block_size=CSV_BYTES), convert_options=options)

    def blocks(self, columns: list[str], dtype: Any) -> Iterator[Any]:
        from pyarrow import ArrowInvalid

        _check_columns(columns, self.names)
        try:
            with self._opened(columns, dtype) as reader:
                yield from reader
        except ArrowInvalid as error:
            raise ValueError(f"{self.path} cannot be read: {error}; if it is about a type, give a dtype") from error


def table_of(path: Path) -> ParquetTable | CsvTable:
    with extra("tables", "converting a table"):
        import pyarrow
    kinds: dict[str, type[ParquetTable | CsvTable]] = {".parquet": ParquetTable, ".csv": CsvTable, ".csv.gz": CsvTable}
    kind = next((kind for ending, kind in kinds.items() if path.name.endswith(ending)), None)
    if kind is None:
        raise ValueError(f"source must end with {', '.join(kinds)}, got {path.name}")
    try:
        return kind(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as {path.suffix[1:]}: {error}") from error


def _check_columns(columns: list[str], names: list[str]) -> None:
    if missing := [name for name in columns if name not in names]:
        raise ValueError(f"columns has {missing[0]!r}, which the table has not; it has {', '.join(names)}")


def _listed(of: str | Sequence[str]) -> list[str]:
    return [of] if isinstance(of, str) else list(of)


def _joined(block: Any, of: str | Sequence[str], dtype: Any, first: int) -> np.ndarray:
    """One column as a vector, several as a matrix; `first` is the number of the block's first row."""
    vectors = [_numbers(name, block.column(name), first) for name in _listed(of)]
    joined = vectors[0] if isinstance(of, str) else np.stack(vectors, axis=1)
    return joined if dtype is None else joined.astype(dtype)


def _numbers(name: str, column: Any, first: int) -> np.ndarray:
    if column.null_count:
        row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(f"column {name!r} has no value in row {row}; drop or fill such rows first")
    array = column.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"column {name!r} must hold numbers, got {column.type}; encode it as numbers first")
    return array


class _Bar:
    """Rows so far, and of how many if that is known; silent unless `show` and standard error is a terminal."""

    def __init__(self, total: int | None, show: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        shown = TextColumn("converting rows"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self.progress = Progress(
            *shown, console=console, disable=not (show and (console.is_terminal or console.is_jupyter))
        )
        self.task = self.progress.add_task("", total=total)

    def __enter__(self) -> Any:
        self.progress.start()
        return lambda rows: self.progress.advance(self.task, rows)

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

"""Tables in Parquet or CSV, converted once into arrays on disk that can be sampled without loading them.

An array becomes a file of NumPy's (.npy), in which a row is in one piece: of all forms it is the one of which single
rows are read fastest.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from isotherm.lib import files
from isotherm.lib.optional import extra
from isotherm.lib.progress import progress_bar

if TYPE_CHECKING:
    from pyarrow import ChunkedArray, RecordBatch
    from pyarrow.dataset import Dataset

Place = str | os.PathLike[str]
BLOCK_ROWS = 2**15
CSV_BYTES = 2**23  # of a CSV file that are read together
FORMATS = {".parquet": "parquet", ".csv": "csv", ".csv.gz": "csv"}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*")


def convert(
    source: Place | Sequence[Place],
    folder: Place,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    *,
    dtype: DTypeLike | None = None,
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
    kind = None if dtype is None else np.dtype(dtype)
    tables = [open_table(each, kind) for each in sources]
    chosen = {name: name for name in tables[0].schema.names} if columns is None else dict(columns)
    for name in chosen:
        if not NAME.fullmatch(name):
            raise ValueError(f"columns has the name {name!r}, and an array of that name cannot be a file; rename it")
    partial = folder.with_name(f"{folder.name}.{os.urandom(4).hex()}{files.PARTIAL}")
    partial.mkdir(parents=True)
    try:
        write_arrays(tables, sources, partial, chosen, kind, progress)
        os.replace(partial, folder)
        files.sync(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return open_arrays(folder)


def write_arrays(
    tables: "Sequence[Dataset]",
    sources: Sequence[Path],
    folder: Path,
    chosen: Mapping[str, str | Sequence[str]],
    dtype: np.dtype | None,
    progress: bool,
) -> None:
    """Write the chosen columns of all tables, one after the other."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

    shown = "converting rows", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    needed = sorted({each for of in chosen.values() for each in ([of] if isinstance(of, str) else of)})
    # Parquet says how many rows it has; CSV would have to be read for that.
    is_counted = all(path.suffix == ".parquet" for path in sources)
    with ExitStack() as stack:
        written = {name: stack.enter_context(closing(ArrayFile(folder / f"{name}.npy"))) for name in chosen}
        bar = stack.enter_context(progress_bar(progress, *shown))
        task = bar.add_task("", total=sum(table.count_rows() for table in tables) if is_counted else None)
        for path, table in zip(sources, tables, strict=True):
            for block in blocks(path, table, needed):
                for name, of in chosen.items():
                    written[name].add(join_columns(block, of, dtype, written[name].rows))
                bar.advance(task, block.num_rows)
        if not next(iter(written.values())).rows:
            raise ValueError(f"{sources[0]} has no rows")


def open_arrays(folder: Place) -> dict[str, np.ndarray]:
    """Open a folder that `isotherm.datasets.convert` made, or any folder of .npy files: the arrays by their names.

    What they hold stays on disk.
    """
    arrays = {
        path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in sorted(Path(folder).glob("*.npy"))
    }
    if not arrays:
        raise FileNotFoundError(f"{folder} has no arrays: there is no file in it that ends with .npy")
    return arrays


class ArrayFile:
    """A .npy file that is written a block of rows at a time; the header gets the number of rows in the end."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows, self.like = path, 0, np.empty(0)
        self.file: BinaryIO = open(path, "xb")  # noqa: SIM115  # closed by `close`

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
        """Write it at the beginning; NumPy leaves room in it for the number of rows to grow."""
        described = {"descr": np.lib.format.dtype_to_descr(self.like.dtype), "fortran_order": False}
        self.file.seek(0)
        np.lib.format.write_array_header_1_0(self.file, described | {"shape": (self.rows, *self.like.shape[1:])})

    def close(self) -> None:
        with self.file:
            self._write_header()
            self.file.flush()
            os.fsync(self.file.fileno())


def open_table(path: Path, dtype: np.dtype | None) -> "Dataset":
    """Open a file as a data set of Arrow, of which only the names and types of its columns are read."""
    with extra("tables", "converting a table"):
        import pyarrow
        from pyarrow import csv, dataset
    kind = next((kind for ending, kind in FORMATS.items() if path.name.endswith(ending)), None)
    if kind is None:
        raise ValueError(f"source must end with {', '.join(FORMATS)}, got {path.name}")
    if kind == "parquet":
        form: dataset.FileFormat = dataset.ParquetFileFormat()
    else:
        form = dataset.CsvFileFormat(read_options=csv.ReadOptions(block_size=CSV_BYTES))
    try:
        table = dataset.dataset(path, format=form)
        if kind == "parquet" or dtype is None:
            return table
        types = dict.fromkeys(table.schema.names, pyarrow.from_numpy_dtype(dtype))
        form.default_fragment_scan_options.convert_options = csv.ConvertOptions(column_types=types)
        return dataset.dataset(path, schema=pyarrow.schema(types.items()), format=form)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as {path.suffix[1:]}: {error}") from error


def blocks(path: Path, table: "Dataset", columns: list[str]) -> "Iterator[RecordBatch]":
    """Read some columns of a file, some rows at a time, in the order of the file."""
    from pyarrow import ArrowInvalid

    names = table.schema.names
    if missing := [name for name in columns if name not in names]:
        raise ValueError(f"columns has {missing[0]!r}, which the table has not; it has {', '.join(names)}")
    try:
        batches = table.to_batches(columns=columns, batch_size=BLOCK_ROWS, batch_readahead=2)
        yield from (batch for batch in batches if batch.num_rows)
    except ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read: {error}; if it is about a type, give a dtype") from error


def join_columns(block: "RecordBatch", of: str | Sequence[str], dtype: np.dtype | None, first: int) -> np.ndarray:
    """Return one column as a vector, several as a matrix; `first` is the number of the block's first row."""
    if isinstance(of, str):
        joined = numbers_of(of, block.column(of), first)
    else:
        joined = np.stack([numbers_of(name, block.column(name), first) for name in of], axis=1)
    return joined if dtype is None else joined.astype(dtype)


def numbers_of(name: str, column: "ChunkedArray", first: int) -> np.ndarray:
    if column.null_count:
        row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(f"column {name!r} has no value in row {row}; drop or fill such rows first")
    array = column.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"column {name!r} must hold numbers, got {column.type}; encode it as numbers first")
    return array

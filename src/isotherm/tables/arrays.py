"""NumPy's .npz files and LIBSVM text as Arrow tables."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isotherm.lib.optional import extra
from isotherm.tables.columns import pyarrow, quote

if TYPE_CHECKING:
    from pyarrow import Array, Table

TABLE_COLUMNS = 20_000
LABEL = "label"  # what the target of a LIBSVM file is called
DENSE_ENTRIES = 1 << 30  # of a sparse matrix that is made dense: 4 GB


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

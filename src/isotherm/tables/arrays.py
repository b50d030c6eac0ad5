"""Columns from NumPy's .npz files and from LIBSVM text."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from isotherm.lib.optional import extra
from isotherm.tables.columns import Levels, Numbers, TableColumn, Times, make_levels, quoted

MOST_COLUMNS = 20_000
LABEL = "label"  # what the target of a LIBSVM file is called
MOST_ENTRIES = 1 << 30  # of a sparse matrix that is made dense: 4 GB


def read_npz(path: Path, na: Iterable[str]) -> dict[str, TableColumn]:
    """Return a column for each array of one axis, and one for each column of an array of two: x[0], x[1], …"""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("it is another kind of zip file; a spreadsheet must be saved as CSV first")
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as fault:
        raise ValueError(f"{path} is not an .npz file of arrays of numbers and text: {fault}") from None
    columns: dict[str, TableColumn] = {}
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise ValueError(f"{path}: {quoted(name)} must have one or two axes, got the shape {array.shape}")
        if array.ndim == 2 and array.shape[1] + len(columns) > MOST_COLUMNS:
            raise ValueError(f"{path} must have at most {MOST_COLUMNS:,} columns, and {quoted(name)} alone has more")
        parts = {name: array} if array.ndim == 1 else {f"{name}[{i}]": part for i, part in enumerate(array.T)}
        columns |= {part: _column(path, part, values, na) for part, values in parts.items()}
    if not columns:
        raise ValueError(f"{path} is empty")
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise ValueError(f"{path} must hold arrays of one length, got the lengths {sorted(lengths)}")
    return columns


def _column(path: Path, name: str, values: np.ndarray, na: Iterable[str]) -> TableColumn:
    if values.dtype.kind in "fiu":
        return Numbers(values.astype(np.float64))
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.float64) / 1e6
        return Times(np.where(np.isnat(values), np.nan, seconds))
    if values.dtype.kind == "b":
        return Levels(values.astype(np.int32), ("false", "true"), truth=True)
    if values.dtype.kind in "US":
        names, codes = np.unique(values, return_inverse=True)
        texts = [each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in names]
        return make_levels(codes.reshape(-1), texts, {"", *na})
    raise ValueError(f"{path}: {quoted(name)} holds {values.dtype}, which is neither numbers nor text; leave it out")


def read_libsvm(path: Path, features: int = 0) -> dict[str, TableColumn]:
    """Return `label`, and a column for each index, named by it; `features` of them or more."""
    with extra("estimators", "reading LIBSVM text"):
        from sklearn.datasets import load_svmlight_file

    try:
        x, y = load_svmlight_file(str(path), zero_based=False)
    except (ValueError, IndexError, OverflowError, EOFError) as fault:
        raise ValueError(f"{path} is not LIBSVM text (label index:value …): {fault}") from None
    wide = max(features, x.shape[1])
    if not len(y):
        raise ValueError(f"{path} is empty")
    if wide > MOST_COLUMNS or wide * len(y) > MOST_ENTRIES:
        raise ValueError(
            f"{path} has {len(y):,} rows and indices up to {wide:,}: too many for a table, which is not sparse "
            f"(at most {MOST_COLUMNS:,} columns and {MOST_ENTRIES:,} entries)"
        )
    dense = np.zeros((wide, len(y)))
    dense[: x.shape[1]] = x.T.toarray()
    columns: dict[str, TableColumn] = {LABEL: Numbers(y)}
    return columns | {str(index): Numbers(column) for index, column in enumerate(dense, 1)}

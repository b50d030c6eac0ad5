"""A table of pandas, polars, Arrow or whatever else speaks Arrow, as arrays; none of them is imported for it."""

from typing import Any

import numpy as np

from isotherm.lib.optional import extra


def is_table(tree: Any) -> bool:
    if hasattr(tree, "__array__"):
        return hasattr(tree, "columns") or hasattr(tree, "column_names")  # which a single column has not
    return hasattr(tree, "__arrow_c_stream__")


def columns(root: str, table: Any) -> dict[Any, np.ndarray]:
    """The columns of a table by their names, if they hold numbers."""
    names = getattr(table, "column_names", None)  # Arrow's word; the others say `columns`
    if names is None and not hasattr(table, "columns"):
        with extra("tables", f"{root} is a {type(table).__name__}, and reading it"):
            import pyarrow
        table = pyarrow.table(table)
        names = table.column_names
    names = list(table.columns if names is None else names)
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise ValueError(f"{root} has two columns named {twice!r}; rename one")
    return {name: _column(root, name, table[name]) for name in names}


def _column(root: str, name: object, column: Any) -> np.ndarray:
    array = np.asarray(column)
    if array.dtype.kind in "biuf":
        return array
    has = getattr(column, "dtype", getattr(column, "type", array.dtype))  # as its own library calls it
    raise TypeError(f"{root}: column {name!r} must hold numbers, got dtype {has}; encode it as numbers first")

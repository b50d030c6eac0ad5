"""A table of pandas, polars, Arrow or whatever else speaks Arrow, as arrays; none of them is imported for it."""

from collections.abc import Hashable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from isotherm.lib.optional import extra


class DataFrame(Protocol):
    """What the libraries' tables have in common; Arrow's have `column_names` in place of `columns`."""

    columns: Iterable[Hashable]

    def __getitem__(self, name: Hashable, /) -> ArrayLike: ...


def columns(root: str, table: DataFrame) -> dict[Hashable, np.ndarray]:
    """Return the columns of a table by their names, if they hold numbers."""
    names = getattr(table, "column_names", None)
    if names is None and not hasattr(table, "columns"):
        with extra("tables", f"{root} is a {type(table).__name__}, and reading it"):
            import pyarrow
        arrow = pyarrow.table(table)
        table, names = arrow, arrow.column_names
    names = list(table.columns if names is None else names)
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise ValueError(f"{root} has two columns named {twice!r}; rename one")
    return {name: _column(root, name, table[name]) for name in names}


def _column(root: str, name: Hashable, column: ArrayLike) -> np.ndarray:
    array = np.asarray(column)
    if array.dtype.kind in "biuf":
        return array
    has = getattr(column, "dtype", getattr(column, "type", array.dtype))  # as its own library calls it
    raise TypeError(f"{root}: column {name!r} must hold numbers, got dtype {has}; encode it as numbers first")

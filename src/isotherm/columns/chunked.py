"""Rows in chunks, compressed or not, that their own library reads: Zarr's arrays, HDF5's chunked datasets."""

from itertools import pairwise
from typing import Protocol

import numpy as np

from isotherm.columns.column import DataError, Stored
from isotherm.columns.raw import readers


class Sliceable(Protocol):
    """What an array of Zarr and a dataset of h5py have in common."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def __getitem__(self, rows: slice, /) -> np.ndarray: ...


class ChunkedRows(Stored):
    """`chunk` is the number of rows that are read together, whatever is wanted of them."""

    def __init__(self, name: str, array: Sliceable, chunk: int) -> None:
        self.name, self.array, self.chunk = name, array, max(1, chunk)
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype)

    def read(self, first: int, last: int) -> np.ndarray:
        try:
            rows = np.asarray(self.array[first:last])
        except Exception as error:  # whatever the library, its codecs and the file system raise
            raise DataError(f"{self.name} cannot be read: {error or type(error).__name__}") from error
        if len(rows) != last - first:
            raise DataError(f"{self.name} has {self.array.shape[0]:,} rows, and had {self.shape[0]:,}: it has changed")
        return rows

    def pick(self, rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        """Each chunk is read once, or what lies between the first and the last row that is wanted of it."""
        begins = np.flatnonzero(np.diff(rows // self.chunk, prepend=-1)).tolist()

        def one(begin: int, end: int) -> None:
            some, first = rows[begin:end], rows[begin]
            out[places[begin:end]] = self.read(int(first), int(some[-1]) + 1)[some - first]

        jobs = [readers().submit(one, a, b) for a, b in pairwise([*begins, len(rows)])]
        for job in jobs:
            job.result()

"""Rows in chunks, compressed or not, that their own library reads: Zarr's arrays, HDF5's chunked datasets."""

from itertools import product
from typing import Protocol

import numpy as np

from isotherm.data.on_disk.column import DataError, StoredRows
from isotherm.data.on_disk.raw import readers


class Sliceable(Protocol):
    """What an array of Zarr and a dataset of h5py have in common."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def __getitem__(self, rows: slice, /) -> np.ndarray: ...


class ChunkedRows(StoredRows):
    """`chunks`: a chunk's shape, or its number of rows; `fill`: what a missing chunk reads as, if that is no error."""

    def __init__(self, name: str, array: Sliceable, chunks: tuple[int, ...], fill: float | None = None) -> None:
        self.name, self.array, self.chunk = name, array, max(1, chunks[0])
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype)
        self.fill = None if fill is None else self.dtype.type(fill)
        cuts = zip(self.shape[1:], chunks[1:], strict=False)
        self.pieces = list(product(*([slice(at, at + size) for at in range(0, length, size)] for length, size in cuts)))
        self.written = set[tuple[int, int]]()  # chunks that were seen to hold something else than `fill`

    def read(self, first: int, last: int) -> np.ndarray:
        rows = self._read(first, last)
        if self.fill is not None:
            self._look_for_lost_chunks(first, rows)
        return rows

    def _read(self, first: int, last: int) -> np.ndarray:
        try:
            rows = np.asarray(self.array[first:last])
        except Exception as error:  # whatever the library, its codecs and the file system raise
            raise DataError(f"{self.name} cannot be read: {error or type(error).__name__}") from error
        if len(rows) != last - first:
            raise DataError(f"{self.name} has {self.array.shape[0]:,} rows, and had {self.shape[0]:,}: it has changed")
        return rows

    def _look_for_lost_chunks(self, first: int, rows: np.ndarray) -> None:
        """Zarr reads a missing chunk as `fill`. It does not write a chunk that holds nothing else, so a missing one may
        be right; it is lost if it held something else before."""
        for number in range(first // self.chunk, -(-(first + len(rows)) // self.chunk)):
            begin, end = number * self.chunk, min(self.shape[0], (number + 1) * self.chunk)
            some = rows[max(0, begin - first) : end - first]
            for piece, where in enumerate(self.pieces):
                if self._is_written(some[:, *where]):
                    self.written.add((number, piece))
                elif (number, piece) in self.written and not self._is_written(self._read(begin, end)[:, *where]):
                    raise DataError(
                        f"{self.name} has lost a chunk: its rows {begin:,} to {end - 1:,} read as {self.fill}, and did "
                        "not before"
                    )

    def _is_written(self, numbers: np.ndarray) -> bool:
        """Whether they are not all `fill`, which most of the time the first row tells."""
        fill = self.fill
        if fill != fill:  # NaN
            return not (np.isnan(numbers[:1]).all() and np.isnan(numbers).all())
        return bool((numbers[:1] != fill).any() or (numbers != fill).any())

    def pick(self, rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        """Each chunk is read once, from the first to the last row that is wanted of it."""
        cuts = [*np.flatnonzero(np.diff(rows // self.chunk, prepend=-1)).tolist(), len(rows)]

        def one(begin: int, end: int) -> None:
            some, first = rows[begin:end], rows[begin]
            out[places[begin:end]] = self.read(int(first), int(some[-1]) + 1)[some - first]

        list(readers().map(one, cuts[:-1], cuts[1:]))

"""How the rows of an array in a file are read: as they lie there, one after the other (a memmap's, or a dataset of HDF5
that is in one piece), or in chunks, by their own library (Zarr's arrays, HDF5's chunked datasets)."""

import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product, repeat
from typing import Protocol

import numpy as np

from isotherm.data.on_disk.column import DataError, StoredRows

READER_THREADS = 16  # reads that wait for the disk at a time
READ_ROWS = 64  # rows that one reader reads before it puts them in their places
CALL_BYTES = 2**30  # bytes that one call reads: Linux gives no more than 2³¹


@cache
def readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(READER_THREADS, "isotherm-read")


class RawRows(StoredRows):
    """`offset` is where the first row begins, `stride` the number of bytes from one row to the next."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype, offset: int, stride: int) -> None:
        self.name, self.shape, self.dtype, self.offset, self.stride = name, shape, dtype, offset, stride
        self.row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        try:
            self.file = os.open(name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise self._fault(error) from error
        weakref.finalize(self, os.close, self.file)

    @property
    def needed(self) -> int:
        """How many bytes the file has, at least, if it has all rows."""
        return self.offset + (self.shape[0] - 1) * self.stride + self.row_bytes

    def read(self, first: int, last: int) -> np.ndarray:
        if last <= first or not self.row_bytes:
            return np.empty((max(0, last - first), *self.shape[1:]), self.dtype)
        length = (last - first - 1) * self.stride + self.row_bytes
        whole = np.empty((last - first) * self.stride, np.uint8)
        begin, done = self.offset + first * self.stride, 0
        while done < length:
            try:
                got = os.preadv(self.file, [whole.data[done : min(length, done + CALL_BYTES)]], begin + done)
            except OSError as error:
                raise self._fault(error) from error
            done += got
            if not got:
                raise self._shorter()
        rows = whole.reshape(last - first, self.stride)[:, : self.row_bytes]
        return np.ascontiguousarray(rows).view(self.dtype).reshape(last - first, *self.shape[1:])

    def pick(self, rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        parts = min(READER_THREADS, len(rows) // READ_ROWS)
        if parts > 1 and self.row_bytes:
            cuts = np.linspace(0, len(rows), parts + 1).astype(int)
            list(readers().map(lambda a, b: self._pick(rows[a:b], places[a:b], out), cuts[:-1], cuts[1:]))
        elif self.row_bytes:
            self._pick(rows, places, out)

    def _pick(self, rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        for some in (slice(first, first + READ_ROWS) for first in range(0, len(rows), READ_ROWS)):
            begins = (self.offset + rows[some] * self.stride).tolist()
            try:
                got = b"".join(map(os.pread, repeat(self.file), repeat(self.row_bytes), begins))
            except OSError as error:
                raise self._fault(error) from error
            if len(got) != len(begins) * self.row_bytes:
                raise self._shorter()
            out[places[some]] = np.frombuffer(got, self.dtype).reshape(len(begins), *self.shape[1:])

    def _fault(self, error: OSError) -> DataError:
        return DataError(error.errno, f"{self.name} cannot be read: {error.strerror}")

    def _shorter(self) -> DataError:
        return DataError(
            f"{self.name} has {os.fstat(self.file).st_size:,} bytes, and its {self.shape[0]:,} rows need "
            f"{self.needed:,}: it has become shorter"
        )


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

"""Rows that lie in a file as they are, one after the other: a memmap's, or a dataset of HDF5 that is in one piece."""

import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import repeat

import numpy as np

from isotherm.data.on_disk.column import DataError, StoredRows

READER_THREADS = 16  # reads that wait for the disk at a time
READ_ROWS = 64  # rows that one reader reads before it puts them in their places
CALL_BYTES = 2**30  # bytes that one call reads: Linux gives no more than 2³¹


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


@cache
def readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(READER_THREADS, "isotherm-read")

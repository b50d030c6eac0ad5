"""A column on disk as its readers see it: an array that is indexed by rows, or read from its beginning to its end."""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike

BLOCKS_AHEAD = 3  # blocks that are being read or wait to be used
T = TypeVar("T")


class DataError(OSError):
    """Data on disk cannot be read, or are no longer what they were; the message names the file."""


class StoredRows(ABC):
    """One array in a file: how its rows are read. `name` is what a user calls the file."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype

    @abstractmethod
    def read(self, first: int, last: int) -> np.ndarray:
        """Read the rows from `first` up to `last`."""

    @abstractmethod
    def pick(self, rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        """Read row rows[k] into out[places[k]]; `rows` ascend."""


class Column:
    """An array on disk, with rows in the dtype that is asked for: indexed by a slice or by row numbers, it gives NumPy
    arrays. `known` keeps what a pass over all of it has found, so that it need not be made again."""

    def __init__(self, stored: StoredRows, dtype: np.dtype | None = None, known: dict[str, str] | None = None) -> None:
        self.stored, self.shape = stored, stored.shape
        self.dtype = stored.dtype.newbyteorder("=") if dtype is None else np.dtype(dtype)
        self.known: dict[str, str] = {} if known is None else known

    def astype(self, dtype: DTypeLike) -> "Column":
        return Column(self.stored, np.dtype(dtype), self.known)

    @property
    def name(self) -> str:
        return self.stored.name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: slice | np.ndarray) -> np.ndarray:
        if isinstance(which, slice):
            first, last, step = which.indices(len(self))
            if step != 1:
                raise IndexError(f"rows of {self.name} are read in their order, got a step of {step}")
            return self.stored.read(first, max(first, last)).astype(self.dtype, copy=False)
        rows = np.asarray(which)
        out = np.empty((*rows.shape, *self.shape[1:]), self.dtype)
        self.pick(rows.ravel(), np.arange(rows.size), out.reshape(rows.size, *self.shape[1:]))
        return out

    def pick(self, rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        """Read row rows[k] into out[places[k]]. The file is read from its beginning to its end."""
        order = np.argsort(rows, kind="stable")
        self.stored.pick(rows[order].astype(np.int64), places[order], out)

    def __repr__(self) -> str:
        return f"<{self.dtype} of shape {self.shape} in {self.name}>"


def read_ahead(read: Callable[[int], T], firsts: range) -> Iterator[tuple[int, T]]:
    """Yield each of `firsts` with the block `read(first)`; the next blocks are read while one is used."""
    with ThreadPoolExecutor(BLOCKS_AHEAD) as pool:
        waiting: deque[tuple[int, Future[T]]] = deque()
        try:
            for first in firsts:
                waiting.append((first, pool.submit(read, first)))
                if len(waiting) > BLOCKS_AHEAD:
                    begin, job = waiting.popleft()
                    yield begin, job.result()
            for begin, job in waiting:
                yield begin, job.result()
        finally:
            for _, job in waiting:
                job.cancel()

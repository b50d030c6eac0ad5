"""Several processes on one run (`jax.distributed`): what they exchange on the host.

All of them make the same calls in the same order. Each has rows of its own, in the order of the processes; what is
decided by the clock or by the disk, the first decides for all. Inside of `together`, which is around the public
functions, a failure of one process is a failure of all. With one process nothing here does anything.
"""

import atexit
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import jax
import numpy as np

from isotherm.data.on_disk.column import Column
from isotherm.data.on_disk.open_data import host
from isotherm.lib.types import Batch

T = TypeVar("T")
HEARTBEAT = 30  # seconds of silence after which a process counts as lost
GRACE = 2.0  # seconds for which the first process outlives a run that failed: without it JAX ends the others at once
# What JAX says when a sum over processes fails because one of them is gone.
LOST = ("gloo", "nccl", "mpi ", "coordination", "connection", "socket", "unavailable", "heartbeat", "peer")

# One thread at a time traces: JAX's caches compare programs by Python's own `==`, during which another thread may run
# and change them; where a user has threads of their own, that has once ended in a segmentation fault.
TRACING = threading.RLock()

_SHARED: list[BaseException] = []  # errors that all processes raise
_BROKEN: list[BaseException] = []  # errors that broke off an exchange, so that there can be no other
_TOGETHER: list[bool] = []  # not empty inside of `together`


class ProcessLost(RuntimeError):
    """Another process of the run has ended or cannot be reached, so this one cannot go on."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def several() -> bool:
    """Return whether there are several processes."""
    return bool(jax.process_count() > 1)


def is_first() -> bool:
    """Return whether this process is the first, which stores, warns and decides."""
    return jax.process_index() == 0


def join(coordinator: str, processes: int | None = None, process: int | None = None) -> None:
    """Become one of several processes, of which the first is at `coordinator`; "auto" finds out under Slurm, Open MPI
    and Kubernetes. A host that is lost without a word is noticed after HEARTBEAT seconds."""
    address = None if coordinator == "auto" else coordinator
    if address is not None:
        if not re.fullmatch(r".+:\d{1,5}", address):
            raise ValueError(f'the coordinator must be "auto" or a host and a port, such as host:1234, got {address!r}')
        if processes is None or process is None:
            raise ValueError("with a coordinator, the number of processes and that of this one must be given")
        if not 0 <= process < processes:
            raise ValueError(f"the process must be at least 0 and less than the {processes} there are, got {process}")
    try:
        jax.distributed.initialize(
            address, processes, process, heartbeat_timeout_seconds=HEARTBEAT, shutdown_timeout_seconds=HEARTBEAT
        )
    except (RuntimeError, ValueError) as error:  # JAX's errors are RuntimeErrors
        raise ConnectionError(f"the processes do not find each other: {str(error).splitlines()[0]}") from error


def share(data: Batch) -> Batch:
    """Return this process's rows of data that all processes have."""
    if not several():
        return data
    rows, count, index = len(jax.tree.leaves(data)[0]), jax.process_count(), jax.process_index()
    return jax.tree.map(lambda column: column[rows * index // count : rows * (index + 1) // count], data)


@contextmanager
def together() -> Iterator[None]:
    """Make what fails in one process fail in all, and let only the first warn. A process that fails says so when it
    leaves; the others learn of it when they leave, or in their next `collective`."""
    if _TOGETHER or not several():
        yield
        return
    _TOGETHER.append(True)
    try:
        with warnings.catch_warnings():
            if not is_first():
                warnings.simplefilter("ignore")
            try:
                yield
            except SystemExit:  # a signal's, after all is stored
                _exchange_failures(None)
                raise
            except Exception as error:
                if error not in _SHARED and error not in _BROKEN:
                    _exchange_failures(error)
                raise
            _exchange_failures(None)
    except BaseException as error:
        if error not in _SHARED and not isinstance(error, SystemExit):
            _leave_at_exit()
        raise
    finally:
        for each in (_TOGETHER, _SHARED, _BROKEN):
            each.clear()


@contextmanager
def collective(exchange: bool = True) -> Iterator[None]:
    """Go around what all processes do at once, such as a sum over the rows of all; raise if one of them has failed, or
    is lost. `exchange` is False for the exchange of failures itself."""
    if _TOGETHER and exchange:
        _exchange_failures(None)
    try:
        yield
    except Exception as error:
        _BROKEN.append(error)
        if not (several() and any(word in str(error).lower() for word in LOST)):
            raise
        lost = ProcessLost(
            "another process of this run has ended or cannot be reached, so this one stops too; see what it said. "
            "With a store, isotherm.resume goes on from the last checkpoint, also with another number of processes. "
            f"JAX says: {str(error).splitlines()[0]}"
        )
        _BROKEN.append(lost)
        raise lost from error


def _exchange_failures(failure: Exception | None) -> None:
    """Tell the others of this process's failure, if there is one; raise if it is another that has failed."""
    with collective(exchange=False):
        reasons = _texts("" if failure is None else str(failure) or type(failure).__name__)
    if failure is None and any(reasons):
        process = next(process for process, text in enumerate(reasons) if text)
        failure = ValueError(f"process {process} cannot go on, so no process can: {reasons[process]}")
        _SHARED.append(failure)
        raise failure
    _SHARED.extend([failure] if failure else [])


def _texts(text: str) -> list[str]:
    """Return the text of each process."""
    content = text.encode()
    lengths = _of_each(np.array(len(content)))
    if not lengths.any():
        return [""] * len(lengths)
    padded = np.frombuffer(content.ljust(int(lengths.max()), b" "), np.uint8)
    return [bytes(each[:length]).decode() for each, length in zip(_of_each(padded), lengths, strict=True)]


def _of_each(array: np.ndarray) -> np.ndarray:
    """Return the arrays of all processes along a new axis; sent as bytes, so that JAX's settings lose no digit."""
    from jax.experimental.multihost_utils import process_allgather

    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    found: np.ndarray = np.asarray(process_allgather(flat))
    return found.view(array.dtype).reshape(jax.process_count(), *array.shape)


def check_same(arguments: dict[str, object]) -> None:
    """Refuse arguments that are not the same in all processes."""
    for name, value in arguments.items() if several() else ():
        with collective():
            texts = _texts(str(value))
        for process, text in enumerate(texts):
            if text != texts[0]:
                raise ValueError(
                    f"{name} must be the same in all processes, got {texts[0][:200]} in process 0 and {text[:200]} "
                    f"in process {process}"
                )


def gathered(array: np.ndarray) -> np.ndarray:
    """Return the arrays of all processes along a new axis; they have one shape and dtype."""
    if not several():
        return array[None]
    with collective():
        return _of_each(array)


def total(array: np.ndarray) -> np.ndarray:
    """Return the sum over processes, in their order."""
    return gathered(array).sum(axis=0, dtype=array.dtype) if several() else array


def firsts_of(tree: T) -> T:
    """Return the arrays and numbers of a tree as the first process has them."""
    if not several():
        return tree
    leaves, structure = jax.tree.flatten(tree)
    same: T = jax.tree.unflatten(structure, [jax.numpy.asarray(gathered(np.asarray(leaf))[0]) for leaf in leaves])
    return same


def row_counts(data: Batch) -> list[int]:
    """Return the number of rows of each process."""
    return [int(rows) for rows in gathered(np.array(len(jax.tree.leaves(data)[0]), np.int64))]


def joined(values: np.ndarray) -> np.ndarray:
    """Return one number a row, of the rows of all processes."""
    if not several():
        return values
    lengths = gathered(np.array(len(values), np.int64))
    padded = np.concatenate([values, np.zeros(int(lengths.max()) - len(values), values.dtype)])
    return np.concatenate([each[:length] for each, length in zip(gathered(padded), lengths, strict=True)])


def rows_of(data: Batch, rows: np.ndarray) -> Batch:
    """Return rows of the data, by their numbers among those of all processes."""
    if not several():
        return jax.tree.map(lambda column: column[rows], data)
    counts = row_counts(data)
    local = rows - sum(counts[: jax.process_index()])
    here = (local >= 0) & (local < counts[jax.process_index()])

    def chosen(column: np.ndarray | jax.Array | Column) -> np.ndarray:
        some = np.asarray(host(column)[local[here]])
        dtype = jax.dtypes.canonicalize_dtype(some.dtype)
        mine = np.zeros((len(rows), *some.shape[1:]), dtype)
        mine[here] = some
        # Each row is in one process, and zero in the others.
        combined: np.ndarray = np.bitwise_or.reduce(gathered(mine.reshape(-1).view(np.uint8)), axis=0)
        return combined.view(dtype).reshape(mine.shape)

    return jax.tree.map(chosen, data)


@cache
def _leave_at_exit() -> None:
    """End this process with status 1 as soon as Python has nothing more to do. JAX would wait for the lost process
    in its barrier at exit, for minutes, and abort then; and as long as this one is there, others wait for it."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        if is_first():
            time.sleep(GRACE)
        os._exit(1)

    atexit.register(leave)

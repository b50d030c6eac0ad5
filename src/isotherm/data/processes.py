"""Several processes on one run (`jax.distributed`): what they tell each other on the host.

All of them make the same calls in the same order. Each has rows of its own, in the order of the processes; what is
decided by the clock or by the disk, the first decides for all. With one process nothing here does anything.
"""

import atexit
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import jax
import numpy as np

from isotherm.data.on_disk import host
from isotherm.lib.types import Batch

T = TypeVar("T")
HEARTBEAT = 30  # seconds of silence after which a process counts as lost
GRACE = 2.0  # seconds for which the first process outlives a run that failed: without it JAX ends the others at once
# What JAX says when a sum over processes fails because one of them is gone.
LOST = ("gloo", "nccl", "mpi ", "coordination", "connection", "socket", "unavailable", "heartbeat", "peer")

# One thread at a time traces: JAX's caches compare programs by Python's own `==`, during which another thread may run
# and change them; where a user has threads of their own, that has once ended in a segmentation fault.
TRACING = threading.RLock()

_AGREED: list[BaseException] = []  # errors that all processes have raised


class ProcessLost(RuntimeError):
    """Another process of the run has ended or cannot be reached, so this one cannot go on."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def several() -> bool:
    return jax.process_count() > 1


def is_first() -> bool:
    return jax.process_index() == 0


def join(coordinator: str, processes: int | None = None, process: int | None = None) -> None:
    """Become one of several processes, of which the first is at `coordinator`; "auto" finds out under Slurm, Open MPI
    and Kubernetes. A host that is lost without a word is noticed after HEARTBEAT seconds."""
    if coordinator == "auto":
        coordinator_address = None
    elif not re.fullmatch(r".+:\d{1,5}", coordinator):
        raise ValueError(f'the coordinator must be "auto" or a host and a port, such as host:1234, got {coordinator!r}')
    elif processes is None or process is None:
        raise ValueError("with a coordinator, the number of processes and that of this one must be given")
    elif not 0 <= process < processes:
        raise ValueError(f"the process must be at least 0 and less than the {processes} there are, got {process}")
    else:
        coordinator_address = coordinator
    try:
        jax.distributed.initialize(
            coordinator_address,
            processes,
            process,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=HEARTBEAT,
        )
    except (RuntimeError, ValueError) as error:  # JAX's errors are RuntimeErrors
        raise ConnectionError(f"the processes do not find each other: {str(error).splitlines()[0]}") from error


def share(data: Batch) -> Batch:
    """This process's rows, of data that all processes have."""
    if not several():
        return data
    rows, count, index = len(jax.tree.leaves(data)[0]), jax.process_count(), jax.process_index()
    return jax.tree.map(lambda column: column[rows * index // count : rows * (index + 1) // count], data)


def gathered(array: np.ndarray) -> np.ndarray:
    """What each process has, one after the other along a new axis; the same shape and dtype in each. As bytes, so that
    no digit is lost whatever JAX's settings."""
    if not several():
        return array[None]
    from jax.experimental.multihost_utils import process_allgather

    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    with in_touch():
        return np.asarray(process_allgather(flat)).view(array.dtype).reshape(jax.process_count(), *array.shape)


def total(array: np.ndarray) -> np.ndarray:
    """The sum over processes, in their order."""
    return gathered(array).sum(axis=0, dtype=array.dtype) if several() else array


def firsts(numbers: np.ndarray) -> np.ndarray:
    """What the first process has."""
    return gathered(numbers)[0]


def firsts_of(tree: T) -> T:
    """The arrays and numbers of a tree as the first process has them."""
    if not several():
        return tree
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [jax.numpy.asarray(firsts(np.asarray(leaf))) for leaf in leaves])


def texts(text: str) -> list[str]:
    """What each process says."""
    if not several():
        return [text]
    content = text.encode()
    lengths = gathered(np.array(len(content)))
    padded = np.frombuffer(content.ljust(int(lengths.max()), b" "), np.uint8)
    return [bytes(each[:length]).decode() for each, length in zip(gathered(padded), lengths, strict=True)]


def agreed(work: Callable[[], T]) -> T:
    """What `work` returns, unless it fails in one of the processes: then it fails in all, and the others say in which.

    `work` must not talk to other processes itself.
    """
    if not several():
        return work()
    failure: Exception | None = None
    try:
        made = work()
    except Exception as error:
        failure = error
    said = texts("" if failure is None else str(failure) or type(failure).__name__)
    if failure is None and any(said):
        process = next(process for process, text in enumerate(said) if text)
        failure = ValueError(f"process {process} cannot go on, so no process can: {said[process]}")
    if failure is not None:
        raise _known_to_all(failure)
    return made


def _known_to_all(error: Exception) -> Exception:
    _AGREED.append(error)
    return error


def check_same(what: dict[str, object]) -> None:
    """Refuse arguments that are not the same in all processes."""
    for name, value in what.items():
        said = texts(str(value))
        for process, text in enumerate(said):
            if text != said[0]:
                raise _known_to_all(
                    ValueError(
                        f"{name} must be the same in all processes, got {said[0][:200]} in process 0 and {text[:200]} "
                        f"in process {process}"
                    )
                )


def row_counts(data: Batch) -> list[int]:
    """How many rows each process has."""
    return [int(rows) for rows in gathered(np.array(len(jax.tree.leaves(data)[0]), np.int64))]


def joined(values: np.ndarray) -> np.ndarray:
    """One number a row, of the rows of all processes."""
    if not several():
        return values
    lengths = gathered(np.array(len(values), np.int64))
    padded = np.concatenate([values, np.zeros(int(lengths.max()) - len(values), values.dtype)])
    return np.concatenate([each[:length] for each, length in zip(gathered(padded), lengths, strict=True)])


def rows_of(data: Batch, rows: np.ndarray) -> Batch:
    """Rows of the data, by their numbers among those of all processes."""
    if not several():
        return jax.tree.map(lambda column: column[rows], data)
    counts = row_counts(data)
    local = rows - sum(counts[: jax.process_index()])
    here = (local >= 0) & (local < counts[jax.process_index()])

    def taken(column: Any) -> np.ndarray:
        some = np.asarray(host(column)[local[here]])
        dtype = jax.dtypes.canonicalize_dtype(some.dtype)
        out = np.zeros((len(rows), *some.shape[1:]), dtype)
        out[here] = some
        return _combined(out)

    return jax.tree.map(taken, data)


def _combined(array: np.ndarray) -> np.ndarray:
    """The sum over processes of arrays, at most one of which is not zero in any place."""
    if not several():
        return array
    from jax.sharding import NamedSharding, PartitionSpec

    flat = np.ascontiguousarray(array).reshape(1, -1).view(np.uint8)
    mesh = _one_device_each()
    with in_touch():
        spread = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("process")), flat)
        summed = jax.jit(lambda x: x.sum(axis=0, dtype=np.uint8), out_shardings=NamedSharding(mesh, PartitionSpec()))
        whole = np.asarray(summed(spread).addressable_shards[0].data)
    return whole.view(array.dtype).reshape(array.shape)


@cache
def _one_device_each() -> jax.sharding.Mesh:
    each = [next(d for d in jax.devices() if d.process_index == process) for process in range(jax.process_count())]
    return jax.sharding.Mesh(np.array(each), ("process",))


@contextmanager
def in_touch() -> Iterator[None]:
    """JAX's errors about lost processes in our words."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # JAX has both
        if not (several() and any(word in str(error).lower() for word in LOST)):
            raise
        raise ProcessLost(
            "another process of this run has ended or cannot be reached, so this one stops too; see what it said. "
            "With a store, isotherm.resume goes on from the last checkpoint, also with another number of processes. "
            f"JAX says: {str(error).splitlines()[0]}"
        ) from error


@contextmanager
def together() -> Iterator[None]:
    """A run of several processes: only the first warns, and a process in which the run fails ends the others too."""
    if not several():
        yield
        return
    with warnings.catch_warnings():
        if not is_first():
            warnings.simplefilter("ignore")
        try:
            yield
        except BaseException as error:
            if error not in _AGREED and not isinstance(error, SystemExit):  # an exit that comes after all is done
                _leave_at_exit()
            raise


@cache
def _leave_at_exit() -> None:
    """This process will end with status 1 as soon as Python has nothing more to do. JAX would wait for the lost process
    in its barrier at exit, for minutes, and abort then; and as long as this one is there, others wait for it."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        if is_first():
            time.sleep(GRACE)
        os._exit(1)

    atexit.register(leave)

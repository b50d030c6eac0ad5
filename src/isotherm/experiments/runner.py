"""Jobs, done once: each leaves one small file, written whole or not at all; a stopped command goes on where it was."""

import json
import os
import queue
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Job(NamedTuple):
    """What makes a result: `name` is its file, `settings` all that determines it, `work` computes it."""

    name: str
    settings: dict[str, Any]
    work: Callable[[], dict[str, Any]]


class Finished(NamedTuple):
    job: Job
    result: dict[str, Any]


def kept(folder: Path, job: Job) -> dict[str, Any] | None:
    """The result on file, if it was made with the same settings."""
    try:
        found = json.loads((folder / f"{job.name}.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(found, dict) or found.get("job") != json.loads(json.dumps(job.settings)):
        return None
    return found["result"]


def keep(folder: Path, job: Job, result: dict[str, Any]) -> None:
    """Write beside, then rename: a reader or a second command never sees half a file."""
    path = folder / f"{job.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with beside.open("w") as file:
        json.dump({"job": job.settings, "result": result}, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


@contextmanager
def divergence_is_data() -> Iterator[None]:
    """No warning for a diverged chain: the cell says so. Entered once, outside the threads that share the filters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* diverged", category=RuntimeWarning)
        yield


def run(jobs: Sequence[Job], folder: Path, workers: int = 1) -> Iterator[Finished]:
    """Each job's result as it comes: those on file first, then the others in order, `workers` at a time."""
    waiting = []
    for job in jobs:
        result = kept(folder, job)
        if result is None:
            waiting.append(job)
        else:
            yield Finished(job, result)
    done = _in_turn(waiting, folder) if workers == 1 else _at_once(waiting, folder, workers)
    yield from done


def _do(job: Job, folder: Path) -> Finished:
    result = job.work()
    keep(folder, job, result)
    return Finished(job, result)


def _in_turn(jobs: Sequence[Job], folder: Path) -> Iterator[Finished]:
    for job in jobs:
        yield _do(job, folder)


def _at_once(jobs: Sequence[Job], folder: Path, workers: int) -> Iterator[Finished]:
    """Daemon threads: compiled code runs outside Python's lock, and a stopped command does not wait for them."""
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    done: queue.Queue[Finished | BaseException] = queue.Queue()
    for job in jobs:
        todo.put(job)

    def work() -> None:
        while True:
            try:
                job = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put(_do(job, folder))
            except BaseException as error:
                done.put(error)
                return

    for _ in range(min(workers, len(jobs))):
        threading.Thread(target=work, daemon=True).start()
    for _ in jobs:
        outcome = done.get()
        if isinstance(outcome, BaseException):
            raise outcome
        yield outcome

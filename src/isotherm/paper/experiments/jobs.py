"""Jobs: each is computed once and leaves one file, so that a stopped command continues where it was."""

import json
import queue
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from isotherm.lib import files
from isotherm.run.verdict import VerdictWarning


class Job(NamedTuple):
    """`name` is the job's file, `settings` all that determines its result, `compute` makes the result."""

    name: str
    settings: dict[str, Any]
    compute: Callable[[], dict[str, Any]]


class JobResult(NamedTuple):
    """`reused` if an earlier command had computed it."""

    job: Job
    result: dict[str, Any]
    reused: bool = False


def read_result(folder: Path, job: Job) -> dict[str, Any] | None:
    """The result on file, if it was made with the same settings."""
    try:
        content = json.loads((folder / f"{job.name}.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(content, dict) or content.get("job") != json.loads(json.dumps(job.settings)):
        return None
    return content["result"]


@contextmanager
def no_run_warnings() -> Iterator[None]:
    """No warning for a diverged chain or a bad one: its cell says so. Entered once, outside the threads, which share
    the filters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* diverged", category=RuntimeWarning)
        warnings.simplefilter("ignore", VerdictWarning)
        yield


def run(jobs: Sequence[Job], folder: Path, workers: int = 1) -> Iterator[JobResult]:
    """Each job's result as it comes: those on file first, then the others in order, `workers` at a time.

    In daemon threads: compiled code runs outside Python's lock, and a stopped command does not wait for them.
    """
    missing = []
    for job in jobs:
        result = read_result(folder, job)
        if result is None:
            missing.append(job)
        else:
            yield JobResult(job, result, reused=True)
    waiting = iter(missing)  # of a list: two threads never get the same job
    done: queue.SimpleQueue[JobResult | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            for job in waiting:
                result = job.compute()
                content = json.dumps({"job": job.settings, "result": result}, allow_nan=False)
                files.write(folder / f"{job.name}.json", [content.encode()])
                done.put(JobResult(job, result))
        except BaseException as error:
            done.put(error)

    for _ in range(min(workers, len(missing))):
        threading.Thread(target=work, daemon=True).start()
    for _ in missing:
        outcome = done.get()
        if isinstance(outcome, BaseException):
            raise outcome
        yield outcome

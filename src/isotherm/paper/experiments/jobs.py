"""Jobs: each is computed once and leaves one file, so that a stopped command continues where it was."""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import NamedTuple

from isotherm.diagnostics.verdict import VerdictWarning
from isotherm.lib import files
from isotherm.lib.types import Json


class Job(NamedTuple):
    """`name` is the job's file, `settings` all that determines its result, `compute` makes the result."""

    name: str
    settings: Json
    compute: Callable[[], Json]


class JobResult(NamedTuple):
    """`reused` if an earlier command had computed it."""

    job: Job
    result: Json
    reused: bool = False


def read_result(folder: Path, job: Job) -> Json | None:
    """Return the result on file, if it was made with the same settings."""
    try:
        content = json.loads((folder / f"{job.name}.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(content, dict) or content.get("job") != json.loads(json.dumps(job.settings)):
        return None
    return content["result"]


@contextmanager
def no_run_warnings() -> Iterator[None]:
    """Silence warnings about diverged and bad chains, of which their cells tell; outside the threads, which share
    the filters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* diverged", category=RuntimeWarning)
        warnings.simplefilter("ignore", VerdictWarning)
        yield


def run(jobs: Sequence[Job], folder: Path, workers: int = 1) -> Iterator[JobResult]:
    """Yield each job's result as it comes: those on file first, then the others in order, `workers` at a time in daemon
    threads: compiled code runs outside Python's lock, and a stopped command does not wait for them."""
    on_file = [(job, read_result(folder, job)) for job in jobs]
    yield from (JobResult(job, result, reused=True) for job, result in on_file if result is not None)

    def compute(job: Job) -> JobResult:
        result = job.compute()
        content = json.dumps({"job": job.settings, "result": result}, allow_nan=False)
        files.write(folder / f"{job.name}.json", [content.encode()])
        return JobResult(job, result)

    with ThreadPool(workers) as pool:
        yield from pool.imap_unordered(compute, [job for job, result in on_file if result is None])

"""Draws and checkpoints of a stored run: when they are written, and in what order.

A thread writes them, so that the loop does not wait for the disk, and the run then forgets them.
"""

import dataclasses
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import numpy as np

from isotherm.lib.types import Draws, Results
from isotherm.run.assemble import Run
from isotherm.run.chains import Snapshot
from isotherm.run.goal import Goal
from isotherm.run.labels import Labels
from isotherm.run.plan import Plan
from isotherm.run.recorder import Recorder
from isotherm.samplers import settings
from isotherm.store import arrays, checkpoint, identity
from isotherm.store.disk import StoreError
from isotherm.store.folder import SAMPLER, slots
from isotherm.store.header import Header

CHUNK_BYTES = 2**22  # about the size of a chunk of positions
CHUNK_DRAWS = 10_000  # and the most draws in one
CHECKPOINT_SECONDS = 10.0  # between checkpoints, at least
CHECKPOINT_SHARE = 0.02  # of a run's time, at most, that it waits to hand checkpoints to the thread


def new_header(run: Run, plan: Plan, goal: Goal | None = None) -> Header:
    """The header of a run that begins."""
    return Header(
        sampler=settings.encode(run.sampler, plan.steps)[0],
        batches=run.batches,
        plan=plan._asdict(),
        chains=run.chains,
        seed=run.seed,
        name=run.name,
        layout=identity.layout(run.evaluation, run.starts),
        data=identity.fingerprint(run.data),
        model=identity.probe(run.evaluation, run.starts, run.data),
        numerics=identity.numerics(),
        versions=identity.versions(),
        chunk=int(max(1, min(CHUNK_DRAWS, CHUNK_BYTES // run.starts.nbytes))),
        constants="",
        notes=dict(run.notes),
        goal={} if goal is None else goal._asdict(),
    )


class StoreRecorder(Recorder):
    """Draws go to disk in chunks, state in checkpoints, in the order in which they are handed over.

    `header` says what the run is and where it stands; `tail` are the draws that are in no chunk yet.
    """

    keeps_state = True

    def __init__(self, path: Path, run: Run, header: Header, tail: Draws) -> None:
        super().__init__(Labels(run, Plan(**header.plan)), tail)
        self.seen = stored_watched(path, header, self.labels) if header.goal else None  # of whole chunks
        self.path, self.header, self.digests = path, header, dict(header.digests)
        self.sampler_arrays = {SAMPLER + name: array for name, array in settings.encode(run.sampler, 0)[1].items()}
        self.chunk, self.whole_chunks, self.serial = header.chunk, header.draws // header.chunk, header.serial + 1
        self.safe_step = None if header.serial < 0 else header.step
        self.last, self.cost = time.monotonic(), 0.0
        self.writer = Writer()

    @property
    def count(self) -> int:
        return self.whole_chunks * self.chunk + super().count

    def add(self, draws: Draws, first_bad_step: np.ndarray) -> None:
        """Whole chunks go to disk."""
        super().add(draws, first_bad_step)
        while super().count >= self.chunk:
            block, rest = cut(self.joined(), self.chunk)
            self.put(self.write_chunk, block, self.whole_chunks, first_bad_step)
            if self.seen is not None:
                self.seen.append(block["position"][..., self.labels.watched])
            self.parts, self.whole_chunks = [rest], self.whole_chunks + 1

    def replanned(self, plan: Plan) -> Plan:
        self.header = dataclasses.replace(self.header, plan=plan._asdict())
        return super().replanned(plan)

    def watched_draws(self) -> np.ndarray:
        return np.concatenate([*(part.swapaxes(0, 1) for part in self.seen or []), super().watched_draws()], axis=1)

    def wants_checkpoint(self) -> bool:
        return time.monotonic() - self.last >= max(CHECKPOINT_SECONDS, self.cost / CHECKPOINT_SHARE)

    def checkpoint(self, snapshot: Snapshot) -> None:
        began = time.monotonic()
        self.put(self.write_checkpoint, snapshot, self.joined(), self.whole_chunks, self.serial)
        self.serial += 1
        self.last = time.monotonic()
        self.cost = self.last - began

    def rescued(self, snapshot: Snapshot) -> str:
        self.checkpoint(snapshot)
        self.close()
        self.writer.check()
        return f"; {self.safe()}"

    def safe(self) -> str:
        """Up to where the run is, and how to go on."""
        kept = "no checkpoint was written" if self.safe_step is None else f"the run is safe up to step {self.safe_step}"
        return f"{kept}: put that right, then go on with isotherm.resume({str(self.path)!r}, …)"

    def finish(self, snapshot: Snapshot) -> Results:
        """A last checkpoint; the results, to be read from disk when looked at."""
        self.checkpoint(snapshot)
        self.close()
        self.writer.check()
        return arrays.open_results(self.path)

    def annotated(self, tree: Results, warnings: str, snapshot: Snapshot) -> Results:
        self.labels.attributes["warnings"] = warnings
        self.guarded(self.write_checkpoint, snapshot, self.joined(), self.whole_chunks, self.serial)
        return arrays.open_results(self.path)

    def close(self) -> None:
        self.writer.close()

    def put(self, write: Callable[..., None], *what: object) -> None:
        self.writer.put(partial(self.guarded, write, *what))

    def guarded(self, write: Callable[..., None], *what: object) -> None:
        try:
            write(*what)
        except StoreError as error:
            raise StoreError(error.errno, f"{error}; {self.safe()}") from error

    def write_chunk(self, block: Draws, number: int, first_bad_step: np.ndarray) -> None:
        tree = self.labels.draws(block, number * self.chunk, first_bad_step)
        self.digests |= arrays.write_chunk(self.path, tree, number, self.chunk)

    def write_checkpoint(self, snapshot: Snapshot, tail: Draws, whole_chunks: int, serial: int) -> None:
        first = whole_chunks * self.chunk
        draws = first + len(tail["position"])
        header = dataclasses.replace(
            self.header, serial=serial, step=snapshot.step, seconds=snapshot.seconds, draws=draws, digests=self.digests
        )
        carry = {"carry." + name: leaf for name, leaf in named_arrays(snapshot.carry)}
        content = {**self.sampler_arrays, **carry, **{"tail." + name: values for name, values in tail.items()}}
        checkpoint.write(slots(self.path)[serial % 2], header.to_json(), content)
        self.safe_step = snapshot.step
        arrays.write_rest(self.path, self.labels.tree(tail, first, snapshot), whole_chunks, self.chunk)


class Writer:
    """A thread that does one job after the other, and whose first failure is told to whoever hands it the next.

    At most `waiting` jobs wait; handing over one more waits too, so that a slow disk costs time, not memory.
    """

    def __init__(self, waiting: int = 2) -> None:
        self.jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(waiting)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.work, name="isotherm-store", daemon=True)
        self.thread.start()

    def work(self) -> None:
        while (job := self.jobs.get()) is not None:
            if self.failure is None:
                try:
                    job()
                except BaseException as error:
                    self.failure = error

    def put(self, job: Callable[[], None]) -> None:
        self.jobs.put(job)
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Wait for what was handed over."""
        if self.thread.is_alive():
            self.jobs.put(None)
            self.thread.join()


def named_arrays(tree: object) -> list[tuple[str, np.ndarray]]:
    """The arrays of a tree by the path to them."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def stored_watched(path: Path, header: Header, labels: Labels) -> list[np.ndarray]:
    """The parameters that a goal looks at, of the draws in whole chunks, by (draw, chain, parameter)."""
    whole = header.draws // header.chunk * header.chunk
    if not whole:
        return []
    stored = arrays.open_results(path)["posterior"].to_dataset()
    parts = [stored[name].values[:, :whole] for name in labels.names()]
    positions = np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)
    return [positions[..., labels.watched].swapaxes(0, 1)]


def cut(draws: Draws, at: int) -> tuple[Draws, Draws]:
    return {name: values[:at] for name, values in draws.items()}, {name: values[at:] for name, values in draws.items()}

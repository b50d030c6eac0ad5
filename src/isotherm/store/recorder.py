"""Draws and checkpoints of a stored run: when they are written, and in what order.

A thread writes them, so that the loop does not wait for the disk, and the run then forgets them.
"""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from isotherm.run.chains import Snapshot
from isotherm.run.labels import Labels
from isotherm.store import arrays, checkpoint
from isotherm.store.disk import StoreError
from isotherm.store.folder import SAMPLER, Folder
from isotherm.store.header import Header
from isotherm.store.writer import Writer
from isotherm.types import Draws

if TYPE_CHECKING:
    import xarray

CHECKPOINT_SECONDS = 10.0  # between checkpoints, or longer, so that
CHECKPOINT_SHARE = 0.02  # is the most of a run's time that it waits for handing them to the thread


class StoreRecorder:
    """Draws go to disk in chunks, state in checkpoints, in the order in which they are handed over.

    Args:
        folder: where.
        labels: turns draws into labelled results.
        header: the run, and where it stands.
        sampler_arrays: the sampler's arrays, repeated in every checkpoint.
        tail: the draws that are in no chunk yet; their names and shapes, if there are none.
    """

    keeps_state = True

    def __init__(
        self, folder: Folder, labels: Labels, header: Header, sampler_arrays: dict[str, np.ndarray], tail: Draws
    ) -> None:
        self.folder, self.labels, self.header = folder, labels, header
        self.sampler_arrays = {SAMPLER + name: array for name, array in sampler_arrays.items()}
        self.chunk, self.whole_chunks = header.chunk, header.draws // header.chunk
        self.serial, self.tail = header.serial + 1, [tail]
        self.digests = dict(header.digests)
        self.safe_step = None if header.serial < 0 else header.step
        self.last, self.cost = time.monotonic(), 0.0
        self.writer = Writer()

    @property
    def count(self) -> int:
        return self.whole_chunks * self.chunk + sum(map(length, self.tail))

    def add(self, draws: Draws, first_bad_step: np.ndarray) -> None:
        """Whole chunks go to disk."""
        self.tail.append(draws)
        if sum(map(length, self.tail)) >= self.chunk:
            rest = join(self.tail)
            while length(rest) >= self.chunk:
                block, rest = cut(rest, self.chunk)
                self.put(partial(self.write_chunk, block, self.whole_chunks, first_bad_step))
                self.whole_chunks += 1
            self.tail = [rest]

    def wants_checkpoint(self) -> bool:
        return time.monotonic() - self.last >= max(CHECKPOINT_SECONDS, self.cost / CHECKPOINT_SHARE)

    def checkpoint(self, snapshot: Snapshot) -> None:
        began = time.monotonic()
        tail = join(self.tail)
        self.tail = [tail]
        self.put(partial(self.write_checkpoint, snapshot, tail, self.whole_chunks, self.serial))
        self.serial += 1
        self.last = time.monotonic()
        self.cost = self.last - began

    def finish(self, snapshot: Snapshot) -> "xarray.DataTree":
        """A last checkpoint; the results, to be read from disk when looked at."""
        self.checkpoint(snapshot)
        self.close()
        self.writer.check()
        return arrays.open_results(self.folder.path)

    def close(self) -> None:
        self.writer.close()

    def put(self, job: Callable[[], None]) -> None:
        self.writer.put(partial(self.guarded, job))

    def guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except StoreError as error:
            path = str(self.folder.path)
            none = self.safe_step is None
            kept = "no checkpoint was written" if none else f"the run is safe up to step {self.safe_step}"
            raise StoreError(
                error.errno, f"{error}; {kept}: put that right, then go on with isotherm.resume({path!r}, …)"
            ) from error

    def write_chunk(self, block: Draws, number: int, first_bad_step: np.ndarray) -> None:
        tree = self.labels.draws(block, number * self.chunk, first_bad_step)
        self.digests |= arrays.write_chunk(self.folder.path, tree, number, self.chunk)

    def write_checkpoint(self, snapshot: Snapshot, tail: Draws, whole_chunks: int, serial: int) -> None:
        first = whole_chunks * self.chunk
        header = dataclasses.replace(
            self.header,
            serial=serial,
            step=snapshot.step,
            seconds=snapshot.seconds,
            draws=first + length(tail),
            digests=self.digests,
        )
        carry = {"carry." + name: leaf for name, leaf in named_arrays(snapshot.carry)}
        content = {**self.sampler_arrays, **carry, **{"tail." + name: values for name, values in tail.items()}}
        checkpoint.write(self.folder.slots[serial % 2], header.to_json(), content)
        self.safe_step = snapshot.step
        arrays.write_rest(self.folder.path, self.labels.tree(tail, first, snapshot), whole_chunks, self.chunk)


def named_arrays(tree: object) -> list[tuple[str, np.ndarray]]:
    """The arrays of a tree by the path to them."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def length(draws: Draws) -> int:
    return len(draws["position"])


def join(parts: list[Draws]) -> Draws:
    return parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def cut(draws: Draws, at: int) -> tuple[Draws, Draws]:
    return {name: values[:at] for name, values in draws.items()}, {name: values[at:] for name, values in draws.items()}

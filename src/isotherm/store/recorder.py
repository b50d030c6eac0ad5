"""What a run does with its draws when it has a store: hands them to a thread that writes, and forgets them."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from isotherm.store import arrays, checkpoint
from isotherm.store.checkpoint import Checkpoint
from isotherm.store.files import StoreError
from isotherm.store.folder import Folder
from isotherm.store.writer import Writer

EVERY = 10.0  # seconds between checkpoints, or
SHARE = 0.02  # what they may take of a run's time, if that is longer
CHUNK_BYTES = 2**22  # about the size of a chunk of positions
CHUNK_DRAWS = 10_000  # and the most draws in one

Draws = dict[str, np.ndarray]
Label = Callable[[Draws, int, Any, int, float], Any]


class Recorder:
    """Draws go to disk in chunks, state in checkpoints, in the order in which they are handed over.

    Args:
        folder: where.
        label: (draws, number of the first, carry without its state, step, seconds) → labelled results.
        header, arrays: what the run is, repeated in every checkpoint.
        tail: the draws that are in no chunk yet; their names and shapes, if there are none.
        saved: the checkpoint that the run goes on from.
    """

    def __init__(
        self,
        folder: Folder,
        label: Label,
        header: dict[str, Any],
        arrays: Draws,
        tail: Draws,
        saved: Checkpoint | None = None,
    ) -> None:
        self.folder, self.label, self.header, self.arrays = folder, label, header, arrays
        self.chunk: int = header["chunk"]
        self.full, self.serial, self.tail = 0, 0, [tail]
        self.digests: dict[str, str] = {}
        self.safe: int | None = None
        if saved is not None:
            self.serial = saved.header["serial"] + 1
            self.full = saved.header["draws"] // self.chunk
            self.digests = dict(saved.header["digests"])
            self.safe = saved.header["step"]
        self.last, self.cost = time.monotonic(), 0.0
        self.writer = Writer()

    def add(self, draws: Draws, lanes: Any, step: int, seconds: float) -> None:
        """Draws that are complete; whole chunks of them go to disk."""
        self.tail.append(draws)
        if sum(map(length, self.tail)) >= self.chunk:
            small, rest = lanes.joined(state=False), join(self.tail)
            while length(rest) >= self.chunk:
                block, rest = cut(rest, self.chunk)
                self.put(partial(self.write_chunk, block, self.full, small, step, seconds))
                self.full += 1
            self.tail = [rest]

    @property
    def count(self) -> int:
        """The draws so far."""
        return self.full * self.chunk + sum(map(length, self.tail))

    def look(self, lanes: Any, step: int, seconds: float) -> None:
        """A checkpoint, if it is time for one."""
        if time.monotonic() - self.last >= max(EVERY, self.cost / SHARE):
            self.checkpoint(lanes, step, seconds)

    def checkpoint(self, lanes: Any, step: int, seconds: float) -> None:
        began = time.monotonic()
        tail = join(self.tail)
        self.tail = [tail]
        self.put(partial(self.write_checkpoint, lanes.joined(), tail, self.full, self.serial, step, seconds))
        self.serial += 1
        self.last = time.monotonic()
        self.cost = self.last - began

    def finish(self, lanes: Any, step: int, seconds: float) -> Any:
        """A last checkpoint; the results, to be read from disk when looked at."""
        self.checkpoint(lanes, step, seconds)
        self.close()
        self.writer.check()
        return arrays.opened(self.folder.path)

    def close(self) -> None:
        self.writer.close()

    def put(self, job: Callable[[], None]) -> None:
        self.writer.put(partial(self.guarded, job))

    def guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except StoreError as error:
            path = str(self.folder.path)
            kept = "no checkpoint was written" if self.safe is None else f"the run is safe up to step {self.safe}"
            raise StoreError(
                error.errno, f"{error}; {kept}: put that right, then go on with isotherm.resume({path!r}, …)"
            ) from error

    def write_chunk(self, block: Draws, number: int, carry: Any, step: int, seconds: float) -> None:
        tree = self.label(block, number * self.chunk, carry, step, seconds)
        self.digests |= arrays.write_chunk(self.folder.path, tree, number, self.chunk)

    def write_checkpoint(self, carry: Any, tail: Draws, full: int, serial: int, step: int, seconds: float) -> None:
        first = full * self.chunk
        header = {"serial": serial, "step": step, "seconds": seconds, "draws": first + length(tail)}
        state = {"carry." + name: leaf for name, leaf in names(carry)}
        held = {**self.arrays, **state, **{"tail." + name: values for name, values in tail.items()}}
        checkpoint.write(self.folder.slots[serial % 2], self.header | header | {"digests": self.digests}, held)
        self.safe = step
        tree = self.label(tail, first, carry._replace(state=None), step, seconds)
        arrays.write_rest(self.folder.path, tree, full, self.chunk)


def chunk_of(positions: Any) -> int:
    """How many draws a chunk holds, of positions with these chains and parameters."""
    return int(max(1, min(CHUNK_DRAWS, CHUNK_BYTES // positions.nbytes)))


def names(tree: Any) -> list[tuple[str, Any]]:
    """The arrays of a tree by the path to them."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def part_of(arrays: Draws, prefix: str) -> Draws:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def length(draws: Draws) -> int:
    return len(draws["position"])


def join(parts: list[Draws]) -> Draws:
    return parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def cut(draws: Draws, at: int) -> tuple[Draws, Draws]:
    return {name: values[:at] for name, values in draws.items()}, {name: values[at:] for name, values in draws.items()}

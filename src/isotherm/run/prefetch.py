"""The batches of many steps at once, read from disk while the device makes the steps before them.

Which rows a batch has follows from seed, chain and step alone. So those of a whole block of steps are computed first,
and read in the order of the file, whichever chains and steps they are for. Each batch is the one of data in memory.
"""

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from isotherm.data.batches import allocate
from isotherm.data.on_disk.column import Column
from isotherm.data.on_disk.mapped_reader import MappedReader, SharedArray, mappable_columns
from isotherm.data.on_disk.open_data import device_shape, host
from isotherm.lib.types import Array, Int, RandomKey
from isotherm.run.assemble import Run
from isotherm.run.loop import Block, ChainIds, is_due, phase_key
from isotherm.samplers.base import Phase, Renewing, extra_batches
from isotherm.targets.evaluation import FORCE, Evaluation, Minibatch

BLOCK_BYTES = 3 * 2**25  # of a block, for the steps of all chains; for renewals as much again
BLOCK_STEPS = 4096
ALIGNED_ROWS = 64  # what begins at a multiple of them begins with a cache line, however long a row is
READER_SECONDS = 0.5  # of reading, after which a process that copies rows is started, which takes 0.2 s


class PhaseRows:
    """The batches that a group of chains draws in one phase, for as many steps as a block has: their shapes, and a
    program of their row numbers, which other groups of as many chains use too."""

    def __init__(self, run: Run, ids: ChainIds, phase: Phase, row: Minibatch, block_steps: int) -> None:
        extra = extra_batches(run.sampler, phase, run.starts.shape[1], run.batches.size)
        self.until = {FORCE: math.inf} | {name: batch.until for name, batch in extra.items()}

        def row_numbers(evaluation: Evaluation, ids: ChainIds, steps: Int[Array, " steps"]) -> dict[str, Array]:
            def one(key: RandomKey, step: Int[Array, ""]) -> dict[str, Array]:
                return evaluation.row_numbers(phase_key(key, phase, step), extra)

            return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(ids.keys(), steps)

        program = jax.jit(row_numbers)
        numbers = jax.eval_shape(program, run.evaluation, ids, np.zeros(1, np.int32))
        row_bytes = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(row))
        step_bytes = sum(rows.shape[-1] for rows in numbers.values()) * row_bytes * run.chains
        self.steps = max(1, min(block_steps, BLOCK_BYTES // max(1, step_bytes)))
        self.shapes = {name: (len(ids.numbers), self.steps, rows.shape[-1]) for name, rows in numbers.items()}
        self.row_numbers = program.lower(run.evaluation, ids, np.zeros(self.steps, np.int32)).compile()


class Programs:
    """What is compiled for the chains of a run, in groups of as many chains as `ids`."""

    def __init__(self, run: Run, ids: ChainIds) -> None:
        self.run, self.ids, table = run, ids, run.evaluation.table
        weight = None if table is None else device_shape(table.weights, 1)
        self.row = Minibatch(jax.tree.map(lambda column: device_shape(column, 1), run.data), weight)
        self.phases: dict[Phase, PhaseRows] = {"step": PhaseRows(run, ids, "step", self.row, BLOCK_STEPS)}
        self.steps, self.renewals = self.phases["step"].steps, 0  # of a block, at most
        if isinstance(run.sampler, Renewing):
            self.phases["renewal"] = PhaseRows(run, ids, "renewal", self.row, self.steps)
            self.renewals = self.phases["renewal"].steps
            due, steps = jax.vmap(is_due, (None, 0, None)), np.zeros(self.steps, np.int32)
            self._due = jax.jit(due, static_argnums=2).lower(run.sampler, steps, run.starts.shape[1]).compile()

    @cached_property
    def init(self) -> PhaseRows:
        return PhaseRows(self.run, self.ids, "init", self.row, 1)

    @property
    def block(self) -> Block:
        """The shapes of a block."""
        batches: dict[Phase, dict[str, Minibatch]] = {
            phase: {
                name: jax.tree.map(lambda leaf, shape=shape: leaf.update(shape=(*shape, *leaf.shape)), self.row)
                for name, shape in rows.shapes.items()
            }
            for phase, rows in self.phases.items()
        }
        first, renewals = (jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((), (self.renewals,)))
        return Block(first, renewals, batches)

    def span(self, run: Run, first: int, limit: int) -> tuple[int, Int[np.ndarray, " renewals"]]:
        """Return the end of the block that begins with a step, and the steps before which it has renewals."""
        steps = np.arange(first, min(limit, first + self.steps), dtype=np.int32)
        if not self.renewals:
            return first + len(steps), steps[:0]
        due = steps[np.asarray(self._due(run.sampler, np.resize(steps, self.steps)))[: len(steps)]]
        return (first + len(steps) if len(due) <= self.renewals else int(due[self.renewals])), due[: self.renewals]


class Ahead(NamedTuple):
    """Blocks that were read, one for each group of chains, for the steps from `first` up to `last`."""

    first: int
    last: int
    has_renewals: bool
    blocks: list[Block]


class Feed:
    """Double-buffered prefetch of batches for the chains of a run, in groups of equal size."""

    def __init__(self, run: Run, groups: list[ChainIds], like: "Feed | None" = None) -> None:
        self.run, self.groups = run, groups
        self.programs: Programs = Programs(run, groups[0]) if like is None else like.programs
        table, columns = run.evaluation.table, jax.tree.map(host, run.data)
        self.columns = jax.tree.leaves(Minibatch(columns, None if table is None else np.asarray(table.weights)))
        shared, row, self.all_rooms = mappable_columns(self.columns), self.programs.row, list[Room]()
        self.rooms: list[dict[Phase, Room]] = [{}, {}]
        for phase, rows in self.programs.phases.items():
            # Where one renewal fills a block, there is room for one: it is rare that another comes so soon.
            count = min(2, self.programs.renewals) if phase == "renewal" else 2
            rooms = [Room(rows, row, len(groups), shared) for _ in range(count)]
            self.rooms[0][phase], self.rooms[1][phase] = rooms[0], rooms[-1]
            self.all_rooms += rooms  # as `reader` numbers them
        self.reader: MappedReader | None = None
        self.seconds = 0.0  # of reading without `reader`
        self.current: Ahead | None = None
        self.next: tuple[int, Future[Ahead]] | None = None
        self.pool = ThreadPoolExecutor(1, "isotherm-feed")

    def start(self, ids: ChainIds) -> Block:
        """Return the batches of these chains before their first step."""
        room, zeros = Room(self.programs.init, self.programs.row, 1), np.zeros(1, np.int32)
        self._fill(room, [ids], zeros)
        return Block(zeros[0], zeros[:0], {"init": room.batches(0)})

    def at(self, step: int, limit: int) -> Ahead:
        """Return the blocks for this step and steps after it, up to `limit` at most, as soon as they are there, and
        begin to read the next. DataError if they cannot be read."""
        if self.current is None or not self.current.first <= step < self.current.last:
            if self.next is None or self.next[0] != step:
                self.forget()
                self.next = self._begin(step, limit)
            (_, job), self.next = self.next, None
            self.current = job.result()
            self.rooms.reverse()  # the device is done with what is in the other
            if (after := self.current.last) < limit and not self._must_wait(after, limit):
                self.next = self._begin(after, limit)
        return self.current

    def forget(self) -> None:
        """Drop what is being read."""
        if self.next is not None:
            self.next[1].exception()  # wait for it
            self.next = None

    def close(self) -> None:
        self.forget()
        self.pool.shutdown()
        if self.reader is not None:
            self.reader.close()
        self.current, self.rooms, self.all_rooms = None, [], []  # freed now, not at the next garbage collection

    def _begin(self, step: int, limit: int) -> tuple[int, Future[Ahead]]:
        return step, self.pool.submit(self._read, self.rooms[0], step, limit)

    def _must_wait(self, first: int, limit: int) -> bool:
        """Return whether the next block goes to memory that the device still reads."""
        one, other = (rooms.get("renewal") for rooms in self.rooms)
        if one is not other or self.current is None or not self.current.has_renewals:
            return False
        return len(self.programs.span(self.run, first, limit)[1]) > 0

    def _read(self, rooms: "dict[Phase, Room]", first: int, limit: int) -> Ahead:
        last, due = self.programs.span(self.run, first, limit)
        self._fill(rooms["step"], self.groups, np.arange(first, last, dtype=np.int32))
        if len(due):
            self._fill(rooms["renewal"], self.groups, due)
        renewals = np.full(self.programs.renewals, -1, np.int32)
        renewals[: len(due)] = due
        batches = [{phase: room.batches(group) for phase, room in rooms.items()} for group in range(len(self.groups))]
        return Ahead(first, last, len(due) > 0, [Block(np.int32(first), renewals, each) for each in batches])

    def _fill(self, room: "Room", groups: list[ChainIds], steps: Int[np.ndarray, " steps"]) -> None:
        """Read the batches of these steps into a room: the separate process copies what it can, and the rest is read
        here, each file from its beginning to its end."""
        rows, runs = self._places(room, groups, steps)
        reader = self._request_rows(room, rows, runs)
        for column, out in zip(self.columns, room.arrays, strict=True):
            if not isinstance(column, Column):
                take(column, rows, runs, out)
        copied = room.shared if reader is not None and reader.wait() else ()
        pairs = enumerate(zip(self.columns, room.arrays, strict=True))
        left = [(column, out) for i, (column, out) in pairs if isinstance(column, Column) and i not in copied]
        if left:
            begin, places = time.perf_counter(), np.concatenate([np.arange(a, a + length) for a, length in runs])
            order = np.argsort(rows, kind="stable")
            for column, out in left:
                column.pick(rows[order], places[order], out)
            self.seconds += time.perf_counter() - begin

    def _places(
        self, room: "Room", groups: list[ChainIds], steps: Int[np.ndarray, " steps"]
    ) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, "runs 2"]]:
        """Return the rows that these steps need, and the runs of places where they go, by first place and length."""
        rows, runs, phase = [], [], room.phase
        for ids, offsets in zip(groups, room.offsets, strict=True):
            numbers = phase.row_numbers(self.run.evaluation, ids, np.resize(steps, phase.steps))
            for name, (chains, _, size) in phase.shapes.items():
                used = int(np.searchsorted(steps, phase.until[name]))
                rows.append(np.asarray(numbers[name])[:, :used].ravel())
                runs += [(offsets[name] + chain * phase.steps * size, used * size) for chain in range(chains)]
        return np.concatenate(rows), np.array(runs)

    def _request_rows(self, room: "Room", rows: np.ndarray, runs: np.ndarray) -> MappedReader | None:
        """Ask the separate process, started when that is worth while, for rows it can copy; None until it is ready."""
        if not room.shared:
            return None
        if self.reader is None and self.seconds >= READER_SECONDS:
            columns = [self.columns[number] for number in room.shared]
            self.reader = MappedReader(columns, [each.shared.values() for each in self.all_rooms])
        is_asked = self.reader is not None and self.reader.request(self.all_rooms.index(room), rows, runs)
        return self.reader if is_asked else None


class Room:
    """Memory for the batches of a block: an array for each column, with the batches of all groups one after the other.
    The arrays with the numbers `shared` are open to another process."""

    def __init__(self, phase: PhaseRows, row: Minibatch, groups: int, shared: Sequence[int] = ()) -> None:
        self.phase, self.offsets, total = phase, list[dict[str, int]](), 0
        for _ in range(groups):
            self.offsets.append({})
            for name, shape in phase.shapes.items():
                self.offsets[-1][name] = total
                total += -(-math.prod(shape) // ALIGNED_ROWS) * ALIGNED_ROWS
        leaves, self.structure = jax.tree.flatten(row)
        self.shared = {number: SharedArray((total, *leaves[number].shape), leaves[number].dtype) for number in shared}
        self.arrays = [
            self.shared[number].array if number in shared else allocate((total, *leaf.shape), leaf.dtype)
            for number, leaf in enumerate(leaves)
        ]
        self.views: dict[tuple[int, int], jax.Array] = {}

    def batches(self, group: int) -> dict[str, Minibatch]:
        """Return the batches of a group, on the device."""
        return {
            name: jax.tree.unflatten(
                self.structure, [self._on_device(number, offset, name) for number in range(len(self.arrays))]
            )
            for name, offset in self.offsets[group].items()
        }

    def _on_device(self, number: int, offset: int, name: str) -> jax.Array:
        """Return a batch of a column: on a CPU without a copy, once for all blocks, since the room is not written to
        before the device is done."""
        shape, array = self.phase.shapes[name], self.arrays[number]
        rows = array[offset : offset + math.prod(shape)].reshape(*shape, *array.shape[1:])
        if jax.default_backend() != "cpu" or rows.dtype.kind not in "fiu" or not rows.size:
            return jnp.asarray(jax.device_put(rows))
        if (number, offset) not in self.views:
            self.views[number, offset] = jax.dlpack.from_dlpack(rows)
        return self.views[number, offset]


def take(column: np.ndarray, rows: np.ndarray, runs: np.ndarray, out: np.ndarray) -> None:
    """Copy rows of a column in memory into runs of places."""
    begin = 0
    for place, length in runs.tolist():
        column.take(rows[begin : begin + length], axis=0, out=out[place : place + length], mode="clip")
        begin += length

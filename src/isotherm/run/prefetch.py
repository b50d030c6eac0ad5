"""The batches of many steps at once, read from disk while the device makes the steps before them.

The rows of a block are read in the order of the file, whichever chains and steps they are for. This changes no batch:
the row numbers are those that data in memory would have been asked for (foresight.py).
"""

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.stages import Compiled

from isotherm.data.batches import aligned
from isotherm.data.on_disk import Apart, Column, Shared, can_be_apart, host
from isotherm.lib.types import Batch
from isotherm.run.assemble import Run
from isotherm.run.loop import ChainIds
from isotherm.run.prefetch_programs import Forecast, start_block
from isotherm.run.prefetched import Block, Part, Parts
from isotherm.run.row_requests import Wish

ROUND = 64  # rows: what begins at a multiple of so many begins with a cache line, however long a row is
WORTHWHILE = 0.5  # seconds of reading after which a process that copies rows is started, which takes 0.2 s


class Ahead(NamedTuple):
    """Blocks that were read, one for each group of chains, for the steps from `first` up to `last`."""

    first: int
    last: int
    blocks: list[Block]


class Feed:
    """Blocks for the chains of a run, in groups of equal size: one in use, and the next, which is being read."""

    def __init__(self, run: Run, groups: list[ChainIds], like: "Feed | None" = None) -> None:
        self.run, self.groups = run, groups
        self.forecast: Forecast = Forecast(run, groups[0]) if like is None else like.forecast
        self.columns, table = jax.tree.map(host, run.data), run.evaluation.table
        self.weights = None if table is None else np.asarray(table.weights)
        block = self.forecast.block
        if self.forecast.renews:
            _ = self.forecast.due  # compiled now: later another thread asks for it
        shared = can_be_apart(jax.tree.leaves(self.columns))
        steps = [self.room([[*block.of_steps]] * len(groups), shared) for _ in range(2)]
        # Where a renewal is as large as a block, there is room for one: it is rare that another comes so soon.
        few = {0: 0, 1: 1}.get(self.forecast.renewals, 2)
        renewals = [self.room([[*block.of_renewals]] * len(groups), shared) for _ in range(few)]
        self.rooms = [Rooms(one, renewals[-number] if renewals else None) for number, one in enumerate(steps)]
        self.all_rooms = [*steps, *renewals]
        self.apart: Apart | None = None
        self.numbers: dict[int, int] = {}  # of the rooms, as `apart` counts them
        self.seconds = 0.0  # of reading without `apart`
        self.current: Ahead | None = None
        self.next: tuple[int, Future[Ahead]] | None = None
        self.pool = ThreadPoolExecutor(1, "isotherm-feed")

    def room(self, parts: list[list[Part]], shared: Sequence[int] = ()) -> "Room":
        return Room(parts, self.forecast.columns, None if self.weights is None else self.weights.dtype, shared)

    def start(self, ids: ChainIds) -> Block:
        """What these chains ask for before their first step."""
        asked = self.forecast.of_start(self.run.sampler, self.run.evaluation, ids)
        room = self.room([list(self.forecast.parts(asked))])
        self.fill(room, [piece_of(wish, True, offset) for wish, offset in zip(asked, room.offsets[0], strict=True)])
        return start_block(room.parts(0))

    def at(self, step: int, limit: int) -> Ahead:
        """What was read for this step and steps after it, up to `limit` at most, as soon as it is there; the next is
        then begun. DataError if it cannot be read."""
        if self.current is None or not self.current.first <= step < self.current.last:
            if self.next is None or self.next[0] != step:
                self.forget()
                self.next = step, self.pool.submit(self.read, self.rooms[0], step, limit)
            (_, job), self.next = self.next, None
            self.current = job.result()
            self.rooms.reverse()  # the device is done with what is in the other
            if (after := self.current.last) < limit and not self.must_wait(after, limit):
                self.next = after, self.pool.submit(self.read, self.rooms[0], after, limit)
        return self.current

    def must_wait(self, first: int, limit: int) -> bool:
        """Whether the next block goes to memory that the device still reads."""
        one, other = self.rooms
        return one.renewals is other.renewals and self.current_renews and bool((self.due(first, limit)[1] >= 0).any())

    @property
    def current_renews(self) -> bool:
        return self.current is not None and bool((self.current.blocks[0].renewals >= 0).any())

    def due(self, first: int, limit: int) -> tuple[int, np.ndarray]:
        """The end of a block that begins with the step `first`, and before which of its steps there are renewals."""
        forecast = self.forecast
        steps = np.arange(first, first + forecast.steps, dtype=np.int32)
        last, renewals = min(limit, first + forecast.steps), np.full(forecast.renewals, -1, np.int32)
        if forecast.renews:
            due = steps[np.asarray(forecast.due(self.run.sampler, steps)) & (steps < last)]
            if len(due) > forecast.renewals:
                last, due = int(due[forecast.renewals]), due[: forecast.renewals]
            renewals[: len(due)] = due
        return last, renewals

    def forget(self) -> None:
        """Drop what is being read."""
        if self.next is not None:
            self.next[1].exception()  # wait for it
            self.next = None

    def read(self, rooms: "Rooms", first: int, limit: int) -> Ahead:
        forecast, (last, renewals) = self.forecast, self.due(first, limit)
        steps = np.arange(first, first + forecast.steps, dtype=np.int32)
        self.fill(rooms.steps, self.pieces(rooms.steps, forecast.of_steps, steps, steps < last))
        if rooms.renewals is not None and (renewals >= 0).any():
            self.fill(rooms.renewals, self.pieces(rooms.renewals, forecast.of_renewals, renewals, renewals >= 0))
        blocks = [
            Block(
                np.int32(first),
                renewals,
                rooms.steps.parts(group),
                () if rooms.renewals is None else rooms.renewals.parts(group),
            )
            for group in range(len(self.groups))
        ]
        return Ahead(first, last, blocks)

    def pieces(self, room: "Room", forecast: Compiled, steps: np.ndarray, used: np.ndarray) -> list["Piece"]:
        """What the chains ask for in those of the steps, or in the renewals before them, that are used."""
        return [
            piece_of(wish, used, offset)
            for ids, offsets in zip(self.groups, room.offsets, strict=True)
            for wish, offset in zip(forecast(self.run.sampler, self.run.evaluation, ids, steps), offsets, strict=True)
        ]

    def fill(self, room: "Room", pieces: list["Piece"]) -> None:
        """Put rows into their places: the separate process copies what it can, and the rest is read here, each file
        from its beginning to its end."""
        rows, runs = (np.concatenate(each) for each in zip(*pieces, strict=True))
        columns, rooms = (
            jax.tree.leaves(each) for each in ((self.columns, self.weights), (room.columns, room.weights))
        )
        apart = self.asked_apart(room, columns, rows, runs)
        for column, out in zip(columns, rooms, strict=True):
            if not isinstance(column, Column):
                take(column, rows, runs, out)
        done = room.shared if apart is not None and apart.done() else ()
        left = [n for n, column in enumerate(columns) if isinstance(column, Column) and n not in done]
        if left:
            begun, places = time.perf_counter(), np.concatenate([np.arange(a, a + length) for a, length in runs])
            order = np.argsort(rows, kind="stable")
            for number in left:
                columns[number].pick(rows[order], places[order], rooms[number])
            self.seconds += time.perf_counter() - begun

    def asked_apart(self, room: "Room", columns: list[Any], rows: np.ndarray, runs: np.ndarray) -> Apart | None:
        """The separate process, asked for the rows of the columns that it can copy. It is started as soon as that is
        worth while; None until it is ready."""
        if not room.shared:
            return None
        if self.apart is None and self.seconds >= WORTHWHILE:
            shared = [each.shared.values() for each in self.all_rooms]
            self.apart = Apart([columns[number] for number in room.shared], shared)
            self.numbers = {id(each): number for number, each in enumerate(self.all_rooms)}
        is_asked = self.apart is not None and self.apart.asked(self.numbers[id(room)], rows, runs)
        return self.apart if is_asked else None

    def close(self) -> None:
        self.forget()
        self.pool.shutdown()
        if self.apart is not None:
            self.apart.close()
        self.current, self.rooms, self.all_rooms = None, [], []  # freed now, not at the next garbage collection


class Rooms(NamedTuple):
    """The memory of a block: for its steps, and for its renewals, if there are any."""

    steps: "Room"
    renewals: "Room | None"


class Room:
    """Memory for the rows of a block: an array for each column, with the parts of all groups one after the other. The
    arrays with the numbers `shared` are open to another process."""

    def __init__(
        self, groups: list[list[Part]], columns: Batch, weights: np.dtype | None, shared: Sequence[int] = ()
    ) -> None:
        self.groups, self.offsets, total = groups, list[list[int]](), 0
        for parts in groups:
            self.offsets.append([])
            for part in parts:
                self.offsets[-1].append(total)
                total += -(-number_of_rows(jax.tree.leaves(part.batch)[0]) // ROUND) * ROUND
        leaves, structure = jax.tree.flatten(columns)
        self.shared = {number: Shared((total, *leaves[number].shape[1:]), leaves[number].dtype) for number in shared}
        arrays = [
            self.shared[number].array if number in shared else aligned((total, *leaf.shape[1:]), leaf.dtype)
            for number, leaf in enumerate(leaves)
        ]
        self.columns = jax.tree.unflatten(structure, arrays)
        self.weights = None if weights is None else aligned((total,), weights)
        self.views: dict[tuple[int, int], jax.Array] = {}

    def parts(self, group: int) -> Parts:
        """The parts of a group, on the device."""
        room, parts = Part(self.columns, self.weights), zip(self.groups[group], self.offsets[group], strict=True)
        return tuple(jax.tree.map(partial(self.on_device, offset), part, room) for part, offset in parts)

    def on_device(self, offset: int, shape: jax.ShapeDtypeStruct, room: np.ndarray) -> jax.Array:
        """On a CPU without a copy, once for all blocks: the room is not written to before the device is done."""
        rows = room[offset : offset + number_of_rows(shape)].reshape(shape.shape)
        if jax.default_backend() != "cpu" or rows.dtype.kind not in "fiu" or not rows.size:
            return jax.device_put(rows)
        here = id(room), offset
        if here not in self.views:
            self.views[here] = jax.dlpack.from_dlpack(rows)
        return self.views[here]


def number_of_rows(shape: jax.ShapeDtypeStruct) -> int:
    """The number of rows of an array by (chain, step, row, …)."""
    return math.prod(shape.shape[:3])


class Piece(NamedTuple):
    """Rows that are needed, and the runs of places that they go to, one after the other: the first place and the length
    of each."""

    rows: np.ndarray
    runs: np.ndarray


def piece_of(wish: Wish, used: np.ndarray | bool, offset: int) -> Piece:
    """What is needed of the steps that are used, with places from `offset` on."""
    rows, needed = np.asarray(wish.rows), np.asarray(wish.needed)
    size, wanted = rows.shape[-1], (needed & used).ravel()
    begins, ends = np.flatnonzero(np.diff(wanted.astype(np.int8), prepend=0, append=0)).reshape(-1, 2).T
    runs = np.stack([offset + begins * size, (ends - begins) * size], axis=1)
    return Piece(rows.reshape(-1, size)[wanted].ravel(), runs)


def take(column: np.ndarray, rows: np.ndarray, runs: np.ndarray, out: np.ndarray) -> None:
    """Rows of a column in memory into runs of places."""
    begin = 0
    for place, length in runs.tolist():
        column.take(rows[begin : begin + length], axis=0, out=out[place : place + length], mode="clip")
        begin += length

"""A program of its own, started by apart.py: it maps files, and copies rows of them into memory that it shares with who
started it.

It imports nothing of isotherm, so that it starts at once. A mapped file that becomes shorter ends it with a signal, and
it alone.
"""

import json
import mmap
import os
import socket
import struct
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

REQUEST = struct.Struct("qqq")  # number of the room, of the column, of rows; then the rows and their places, int64
DONE, FAILED = b"+", b"-"
COPIERS = 8  # copies that wait for the disk at a time
TOGETHER = 1024  # rows of one copy


def main() -> None:
    who, spec = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2])
    sys.path.append(spec["numpy"])
    import numpy as np

    def mapped(file: int, shape: list[int], dtype: str, offset: int, stride: int, access: int) -> Any:
        inner = np.empty((1, *shape[1:]), dtype).strides[1:]
        return np.ndarray(shape, dtype, mmap.mmap(file, 0, prot=access), offset, (stride, *inner))

    columns = [mapped(**each, access=mmap.PROT_READ) for each in spec["columns"]]
    rooms = [[mapped(**each, access=mmap.PROT_READ | mmap.PROT_WRITE) for each in room] for room in spec["rooms"]]
    who.sendall(DONE)
    with ThreadPoolExecutor(COPIERS) as pool:
        while len(request := received(who, REQUEST.size)) == REQUEST.size:
            room, number, count = REQUEST.unpack(request)
            rows, places = (np.frombuffer(received(who, 8 * count), np.int64) for _ in range(2))
            jobs = [
                pool.submit(copied, columns[number], rooms[room][number], rows[some], places[some])
                for some in runs(places, np)
            ]
            for job in jobs:
                job.result()
            # The rest of a file's last page is zeros, whatever was there before it became shorter.
            is_whole = os.fstat(spec["columns"][number]["file"]).st_size >= spec["needed"][number]
            who.sendall(DONE if is_whole else FAILED)


def received(who: socket.socket, size: int) -> bytearray:
    """So many bytes, or fewer if there are no more."""
    room, done = bytearray(size), 0
    while done < size and (got := who.recv_into(memoryview(room)[done:])):
        done += got
    return room[:done]


def runs(places: Any, np: Any) -> Iterator[slice]:
    """Parts of at most TOGETHER rows. Most places follow each other: then parts in which all do."""
    breaks = 1 + np.flatnonzero(np.diff(places) != 1)
    ends = [*(breaks.tolist() if len(breaks) * TOGETHER < len(places) * 32 else []), len(places)]
    begin = 0
    for end in ends:
        yield from (slice(first, min(end, first + TOGETHER)) for first in range(begin, end, TOGETHER))
        begin = end


def copied(column: Any, room: Any, rows: Any, places: Any) -> None:
    here = slice(places[0], places[0] + len(places))
    in_one_run = bool((places[1:] - places[:-1] == 1).all())
    is_plain = column.flags.c_contiguous and column.flags.aligned and column.dtype == room.dtype
    if in_one_run and is_plain:
        column.take(rows, axis=0, out=room[here], mode="clip")
    else:
        room[places] = column[rows]


if __name__ == "__main__":
    main()

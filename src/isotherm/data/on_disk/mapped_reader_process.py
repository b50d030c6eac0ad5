"""A program that mapped_reader.py starts: it maps files and copies rows of them into memory that both share. It imports
nothing of isotherm, so that it starts at once."""

import json
import mmap
import os
import socket
import struct
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

REQUEST = struct.Struct("qqq")  # number of the room, of runs, of rows; then the runs, int64, and the rows, int32
DONE, FAILED = b"+", b"-"
COPY_THREADS = 8  # copies that wait for the disk at a time
COPY_BYTES, COPY_ROWS = 2**18, 4096  # of one copy: worth handing to a thread, and no long wait for the last


def main() -> None:
    peer, spec = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2])
    sys.path.append(spec["numpy"])
    import numpy as np

    def open_map(file: int, shape: list[int], dtype: str, offset: int, stride: int, access: int) -> Any:
        inner = np.empty((1, *shape[1:]), dtype).strides[1:]
        return np.ndarray(shape, dtype, mmap.mmap(file, 0, prot=access), offset, (stride, *inner))

    columns = [open_map(**each, access=mmap.PROT_READ) for each in spec["columns"]]
    rooms = [[open_map(**each, access=mmap.PROT_READ | mmap.PROT_WRITE) for each in room] for room in spec["rooms"]]
    peer.sendall(DONE)
    with ThreadPoolExecutor(COPY_THREADS) as pool:
        while len(request := receive(peer, REQUEST.size)) == REQUEST.size:
            number, count, size = REQUEST.unpack(request)
            runs = np.frombuffer(receive(peer, 16 * count), np.int64).reshape(count, 2).tolist()
            rows = np.frombuffer(receive(peer, 4 * size), np.int32)
            least = max(1, min(COPY_ROWS, size // COPY_THREADS))
            jobs = [
                pool.submit(copy, column, room, rows, some)
                for column, room in zip(columns, rooms[number], strict=True)
                for some in split_runs(runs, max(COPY_BYTES // room[:1].nbytes, least))
            ]
            for job in jobs:
                job.result()
            # Beyond the end of a file that became shorter, its last page reads as zeros, without a signal.
            sizes = [os.fstat(column["file"]).st_size for column in spec["columns"]]
            are_whole = all(size >= needed for size, needed in zip(sizes, spec["needed"], strict=True))
            peer.sendall(DONE if are_whole else FAILED)


def receive(peer: socket.socket, size: int) -> bytearray:
    """Read `size` bytes, or fewer if the peer has closed."""
    room, done = bytearray(size), 0
    while done < size and (got := peer.recv_into(memoryview(room)[done:])):
        done += got
    return room[:done]


def split_runs(runs: list[list[int]], most: int) -> Iterator[list[tuple[int, int, int]]]:
    """Cut runs into shares of at most `most` rows, one share a copy.

    Each piece of a share is the index of its first row in the request, its place, and its length."""
    share, room, begin = list[tuple[int, int, int]](), most, 0
    for place, length in runs:
        done = 0
        while done < length:
            some = min(room, length - done)
            share.append((begin + done, place + done, some))
            done, room = done + some, room - some
            if not room:
                yield share
                share, room = [], most
        begin += length
    if share:
        yield share


def copy(column: Any, room: Any, rows: Any, share: list[tuple[int, int, int]]) -> None:
    """Copy one share of the rows of a column to their places in a room."""
    is_plain = column.flags.c_contiguous and column.flags.aligned and column.dtype == room.dtype
    for begin, place, length in share:
        some, here = rows[begin : begin + length], room[place : place + length]
        if is_plain:
            column.take(some, axis=0, out=here, mode="clip")
        else:
            here[...] = column[some]


if __name__ == "__main__":
    main()

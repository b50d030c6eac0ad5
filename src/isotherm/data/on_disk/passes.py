"""All rows, one block after the other; the next ones are prefetched from disk while one is used."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import jax

from isotherm.data.on_disk.column import Column, host
from isotherm.lib.types import Batch

BLOCK_BYTES = 2**24
AHEAD = 3  # blocks that are being read or wait to be used


def block_rows(data: Batch) -> int:
    """How many rows a block has: BLOCK_BYTES, about."""
    row = sum(leaf.nbytes // max(1, leaf.shape[0]) for leaf in map(host, jax.tree.leaves(data)))
    return max(1, BLOCK_BYTES // max(1, row))


def streamed(data: Batch, size: int | None = None) -> Iterator[tuple[int, Batch]]:
    """The number of the first row of each block, and the block; the last may have fewer rows."""
    data = jax.tree.map(host, data)
    rows, size = len(jax.tree.leaves(data)[0]), size or block_rows(data)

    def block(first: int) -> Batch:
        return jax.tree.map(lambda column: column[first : first + size], data)

    if not any(isinstance(leaf, Column) for leaf in jax.tree.leaves(data)):
        yield from ((first, block(first)) for first in range(0, rows, size))
        return
    with ThreadPoolExecutor(AHEAD) as pool:
        waiting: deque[tuple[int, Future[Batch]]] = deque()
        try:
            for first in range(0, rows, size):
                waiting.append((first, pool.submit(block, first)))
                if len(waiting) > AHEAD:
                    begin, job = waiting.popleft()
                    yield begin, job.result()
            for begin, job in waiting:
                yield begin, job.result()
        finally:
            for _, job in waiting:
                job.cancel()

"""Data wherever they are: arrays in memory stay as they are, and handles of NumPy, Zarr or h5py become columns."""

import mmap
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax
import numpy as np
from numpy.typing import ArrayLike

from isotherm.data.on_disk.column import Column, StoredRows, read_ahead
from isotherm.data.on_disk.free_memory import available
from isotherm.data.on_disk.stored_rows import ChunkedRows, RawRows
from isotherm.lib.types import Array, Batch

if TYPE_CHECKING:
    import h5py

FREE_SHARE = 8  # columns on disk that together take at most 1/8 of the free memory are read into it
KEPT_BYTES = 2**28  # bytes: otherwise, the smallest columns are read into memory up to this total: labels, mostly
READ_BYTES = 2**20  # that are read together of a dataset that says nothing of chunks
BLOCK_BYTES = 2**24  # of a block of a stream


def open_columns(data: Batch) -> Batch:
    """Return `data` with a `Column` in place of each array on disk.

    Where all are small beside the free memory, they are read into it; otherwise the smallest, up to KEPT_BYTES."""
    try:
        leaves, structure = jax.tree.flatten(data)
    except ValueError:  # keys that cannot be sorted, which targets/checks.py reports
        return data
    columns = {index: Column(stored) for index, leaf in enumerate(leaves) if (stored := _stored(leaf)) is not None}
    if not columns:
        return data
    is_small = sum(column.nbytes for column in columns.values()) <= available() // FREE_SHARE
    kept = 0
    for index, column in sorted(columns.items(), key=lambda item: item[1].nbytes):
        kept += column.nbytes
        leaves[index] = column[:] if (is_small or kept <= KEPT_BYTES) and column.ndim else column
    return jax.tree.unflatten(structure, leaves)


def on_disk(data: Batch) -> bool:
    """Return whether some of the data are on disk."""
    return any(isinstance(leaf, Column) for leaf in jax.tree.leaves(data))


def host(column: ArrayLike | Column) -> Column | np.ndarray:
    """Return a column that can be indexed on the host. On a CPU these are the device's own numbers, not a copy."""
    return column if isinstance(column, Column) else np.asarray(column)


def shapes(data: Batch) -> Batch:
    """Return data with the shapes and dtypes that the device would see in place of columns on disk."""
    return jax.tree.map(lambda leaf: device_shape(leaf) if isinstance(leaf, Column) else leaf, data)


def device_shape(array: Array | np.ndarray | Column, skip: int = 0) -> jax.ShapeDtypeStruct:
    """Return the shape, without the first `skip` axes, and the dtype that the device would see."""
    return jax.ShapeDtypeStruct(array.shape[skip:], jax.dtypes.canonicalize_dtype(array.dtype))


def stream(data: Batch, size: int | None = None) -> Iterator[tuple[int, Batch]]:
    """Yield the first row's number and each block, of `size` rows or about BLOCK_BYTES; the last may have fewer."""
    data = jax.tree.map(host, data)
    leaves = jax.tree.leaves(data)
    size = size or max(1, BLOCK_BYTES // max(1, sum(leaf.nbytes // max(1, leaf.shape[0]) for leaf in leaves)))

    def block(first: int) -> Batch:
        return jax.tree.map(lambda column: column[first : first + size], data)

    firsts = range(0, len(leaves[0]), size)
    return read_ahead(block, firsts) if on_disk(data) else ((first, block(first)) for first in firsts)


def _stored(leaf: object) -> StoredRows | None:
    if isinstance(leaf, np.memmap):
        return _of_memmap(leaf)
    zarr, h5py = sys.modules.get("zarr"), sys.modules.get("h5py")  # who has an array of theirs has imported them
    if zarr is not None and isinstance(leaf, zarr.Array):
        fill = leaf.fill_value if leaf.dtype.kind in "biuf" else None
        return ChunkedRows(str(leaf.store_path), leaf, leaf.chunks or (1,), fill)
    if h5py is not None and isinstance(leaf, h5py.Dataset):
        return _of_hdf5(leaf)
    return None


def _of_memmap(array: np.memmap) -> StoredRows | None:
    """Return None for a memmap without a file name, or a copy-on-write one: these are arrays in memory as any other."""
    mapped = getattr(array, "_mmap", None)
    if not isinstance(mapped, mmap.mmap) or array.filename is None or array.mode == "c" or not array.ndim:
        return None
    row = array[:1]
    if array.size and not (row.flags.c_contiguous and array.strides[0] >= row.nbytes):
        raise ValueError(
            f"{array.filename} is laid out by columns, or only a part of each row is wanted, so a row is not in one "
            "piece; write it by rows once (np.lib.format.open_memmap), and take columns in log_likelihood"
        )
    # A slice of a memmap has the offset of the whole, so where it begins is known from its address.
    start = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    offset = start + array.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    return RawRows(str(array.filename), array.shape, array.dtype, offset, array.strides[0])


def _of_hdf5(dataset: "h5py.Dataset") -> StoredRows:
    file, name = dataset.file, f"{dataset.file.filename}{dataset.name}"
    plain = file.mode == "r" and file.driver in {"sec2", "stdio"} and not file.userblock_size
    offset = dataset.id.get_offset() if plain else None  # None, too, unless the dataset is in one piece
    row_bytes = dataset.dtype.itemsize * int(np.prod(dataset.shape[1:], dtype=np.int64))
    if offset is not None and dataset.dtype.kind in "iuf":
        return RawRows(file.filename, dataset.shape, dataset.dtype, offset, row_bytes)
    chunk = dataset.chunks[0] if dataset.chunks else READ_BYTES // max(1, row_bytes)
    return ChunkedRows(name, dataset, (chunk,))

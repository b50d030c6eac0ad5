"""A file that is no longer what it was is an error that names it."""

import os

import numpy as np
import pytest

from isotherm.data.on_disk.column import DataError
from isotherm.data.on_disk.open_data import open_columns


def test_a_file_that_becomes_shorter(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    column = open_columns(np.load(tmp_path / "x.npy", mmap_mode="r"))
    os.truncate(tmp_path / "x.npy", 10_000)
    np.testing.assert_array_equal(column[:400], array[:400])
    for which in (slice(0, 1000), np.array([3, 999]), np.arange(1000).repeat(9)):
        with pytest.raises(DataError, match=r"x\.npy has 10,000 bytes, and its 1,000 rows need 24,128: .* shorter"):
            column[which]


def test_a_file_that_is_gone(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    stored = np.load(tmp_path / "x.npy", mmap_mode="r")
    (tmp_path / "x.npy").unlink()
    with pytest.raises(DataError, match=r"x\.npy cannot be read: No such file"):
        open_columns(stored)


def test_a_chunk_that_cannot_be_decoded(tmp_path, array):
    zarr = pytest.importorskip("zarr")
    made = zarr.create_array(tmp_path / "a.zarr", shape=array.shape, dtype=array.dtype, chunks=(100, 3, 2))
    made[:] = array
    column = open_columns(made)
    (tmp_path / "a.zarr" / "c" / "4" / "0" / "0").write_bytes(b"not what it was")
    np.testing.assert_array_equal(column[np.array([3, 99])], array[[3, 99]])
    with pytest.raises(DataError, match=r"a\.zarr cannot be read"):
        column[np.array([3, 450])]


@pytest.mark.parametrize("fill", [0, np.nan, 7.5])
@pytest.mark.parametrize("chunks", [(100, 3, 2), (100, 2, 1)])
def test_a_chunk_of_zarr_that_is_deleted(tmp_path, array, fill, chunks):
    """Zarr itself reads it as the fill value, as it does chunks that were never written because they hold nothing else.
    The second are as good as any; rows that were something else before are not."""
    zarr = pytest.importorskip("zarr")
    array = array.copy()
    array[300:400], array[420:480] = fill, fill  # one chunk that is not written, and a part of one that is
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=array.shape, dtype=array.dtype, chunks=chunks, fill_value=array.dtype.type(fill)
    )
    made[:] = array
    assert not (tmp_path / "a.zarr" / "c" / "3").exists()
    column = open_columns(made)
    rows = np.array([3, 350, 430, 470])
    for _ in range(2):
        np.testing.assert_array_equal(column[:], array)
        np.testing.assert_array_equal(column[rows], array[rows])
    (tmp_path / "a.zarr" / "c" / "4" / "0" / "0").unlink()
    np.testing.assert_array_equal(column[:400], array[:400])
    for which in (slice(0, 1000), slice(350, 450), np.array([3, 430, 470]), np.array([490])):
        with pytest.raises(DataError, match=r"a\.zarr has lost a chunk: its rows 400 to 499 read as .*, and did not"):
            column[which]

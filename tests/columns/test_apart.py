"""A process that maps files and copies their rows: right rows, and nothing but its own end when a file is not whole."""

import os
import time
from contextlib import closing

import numpy as np
import pytest

from isotherm.columns import Apart, Shared, can_be_apart, opened

ROWS = np.random.default_rng(1).integers(0, 1000, 3000)
# One run after another, in steps of two, and at random.
PLACES = (
    np.concatenate([np.arange(1500, 3000), np.arange(1500)]),
    np.arange(3000) * 2,
    np.random.default_rng(2).permutation(3000),
)


def started(column, dtype=np.float32, rows=6000):
    """The process, when it is there, and the room that it fills."""
    room = Shared((rows, *column.shape[1:]), np.dtype(dtype))
    apart, first = Apart([column], [[room]]), np.zeros(1, np.int64)
    deadline = time.monotonic() + 60
    while not apart.pick(0, 0, first, first) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert apart.is_ready
    return apart, room.array


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_those_of_the_array(stored, array, dtype):
    column = opened({"x": stored})["x"]
    if not can_be_apart([column]):
        pytest.skip("read by chunks")
    apart, room = started(column, dtype)
    with closing(apart):
        for places in PLACES:
            room[:] = np.nan
            assert apart.pick(0, 0, ROWS, places)
            np.testing.assert_array_equal(room[places], array[ROWS])
            assert np.isnan(np.delete(room, places, axis=0)).all()


def test_which_columns_it_may_map(stored, array, monkeypatch):
    column = opened({"x": stored})["x"]
    is_raw = type(column.stored).__name__ == "RawRows"
    assert can_be_apart([array, column, column]) == ([1, 2] if is_raw else [])
    monkeypatch.setattr(os, "sysconf", lambda name: 100)  # 10,000 bytes of memory
    assert can_be_apart([array, column]) == []


@pytest.mark.parametrize("size", [0, 24_000, 24_127])  # all of the file gone, less than a page, one byte
def test_a_file_that_becomes_shorter_is_noticed(tmp_path, array, size):
    np.save(tmp_path / "x.npy", array)
    apart, _ = started(opened(np.load(tmp_path / "x.npy", mmap_mode="r")))
    with closing(apart):
        os.truncate(tmp_path / "x.npy", size)
        assert not apart.pick(0, 0, ROWS, PLACES[0])


def test_when_it_is_no_more_nothing_is_picked(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    apart, _ = started(opened(np.load(tmp_path / "x.npy", mmap_mode="r")))
    with closing(apart):
        apart.process.kill()
        apart.process.wait()
        for _ in range(2):
            assert not apart.pick(0, 0, ROWS, PLACES[0])

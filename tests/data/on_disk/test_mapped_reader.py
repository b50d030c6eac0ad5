"""A process that maps files and copies their rows: right rows, and nothing but its own end when a file is not whole."""

import os
import time
from contextlib import closing

import numpy as np
import pytest

from isotherm.data.on_disk import mapped_reader_process
from isotherm.data.on_disk.mapped_reader import MappedReader, SharedArray, mappable_columns
from isotherm.data.on_disk.open_data import open_columns

ROWS = np.random.default_rng(1).integers(0, 1000, 3000)
# The first places and the lengths of runs: two, one a row, and of random lengths with one place left out between them.
LENGTHS = np.random.default_rng(2).multinomial(3000, np.full(70, 1 / 70))
RUNS = (
    np.array([[1500, 1500], [0, 1500]]),
    np.stack([np.arange(3000) * 2, np.ones(3000, int)], axis=1),
    np.stack([np.cumsum(LENGTHS + 1) - LENGTHS, LENGTHS], axis=1),
)


def places_of(runs):
    return np.concatenate([np.arange(first, first + length) for first, length in runs])


def picked(apart, rows=ROWS, runs=RUNS[0]):
    return apart.request(0, rows, runs) and apart.wait()


def started(column, dtype=np.float32, rows=6000):
    """The process, when it is there, and the room that it fills."""
    room = SharedArray((rows, *column.shape[1:]), np.dtype(dtype))
    apart, one = MappedReader([column], [[room]]), (np.zeros(1, int), np.array([[0, 1]]))
    deadline = time.monotonic() + 60
    while not picked(apart, *one) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert apart.is_ready
    return apart, room.array


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_those_of_the_array(stored, array, dtype):
    column = open_columns({"x": stored})["x"]
    if not mappable_columns([column]):
        pytest.skip("read by chunks")
    apart, room = started(column, dtype)
    with closing(apart):
        for runs in RUNS:
            room[:], places = np.nan, places_of(runs)
            assert picked(apart, ROWS, runs)
            np.testing.assert_array_equal(room[places], array[ROWS])
            assert np.isnan(np.delete(room, places, axis=0)).all()


def test_which_columns_it_may_map(stored, array, monkeypatch):
    column = open_columns({"x": stored})["x"]
    is_raw = type(column.stored).__name__ == "RawRows"
    assert mappable_columns([array, column, column]) == ([1, 2] if is_raw else [])
    monkeypatch.setattr(os, "sysconf", lambda name: 100)  # 10,000 bytes of memory
    assert mappable_columns([array, column]) == []


@pytest.mark.parametrize("size", [0, 24_000, 24_127])  # all of the file gone, less than a page, one byte
def test_a_file_that_becomes_shorter_is_noticed(tmp_path, array, size):
    np.save(tmp_path / "x.npy", array)
    apart, _ = started(open_columns(np.load(tmp_path / "x.npy", mmap_mode="r")))
    with closing(apart):
        os.truncate(tmp_path / "x.npy", size)
        assert not picked(apart)


def test_when_it_is_no_more_nothing_is_picked(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    apart, _ = started(open_columns(np.load(tmp_path / "x.npy", mmap_mode="r")))
    with closing(apart):
        apart.process.kill()
        apart.process.wait()
        for _ in range(2):
            assert not picked(apart)


def test_columns_are_copied_together(tmp_path, array):
    """Two columns, one of them in other numbers than in its file, and none of a size that divides the other's."""
    y = np.arange(1000, dtype=np.int64)
    columns = []
    for name, column in (("x", array), ("y", y)):
        np.save(tmp_path / f"{name}.npy", column)
        columns.append(open_columns(np.load(tmp_path / f"{name}.npy", mmap_mode="r")))
    rooms = [SharedArray((3000, 3, 2), np.dtype(np.float32)), SharedArray((3000,), np.dtype(np.int32))]
    with closing(MappedReader([columns[0], columns[1].astype(np.int32)], [rooms])) as apart:
        deadline = time.monotonic() + 60
        while not picked(apart) and time.monotonic() < deadline:
            time.sleep(0.02)
        np.testing.assert_array_equal(rooms[0].array[places_of(RUNS[0])], array[ROWS])
        np.testing.assert_array_equal(rooms[1].array[places_of(RUNS[0])], y[ROWS])


@pytest.mark.parametrize("most", [1, 7, 100, 10**6])
def test_copies_are_of_equal_size(most):
    shares = list(mapped_reader_process.split_runs(RUNS[2].tolist(), most))
    assert [sum(length for *_, length in share) for share in shares[:-1]] == [most] * (len(shares) - 1)
    parts = [part for share in shares for part in share]
    assert np.concatenate([np.arange(first, first + length) for first, _, length in parts]).tolist() == [*range(3000)]
    np.testing.assert_array_equal(places_of([part[1:] for part in parts]), places_of(RUNS[2]))

"""Whatever form an array has on disk, its rows are those of the array."""

import numpy as np
import pytest

from isotherm.data.on_disk.column import Column
from isotherm.data.on_disk.open_data import host, on_disk, open_columns, shapes, stream


def test_rows_in_order_and_by_number(stored, array):
    column = open_columns({"x": stored})["x"]
    assert isinstance(column, Column)
    assert (column.shape, column.dtype, len(column), column.nbytes) == (array.shape, array.dtype, 1000, array.nbytes)
    np.testing.assert_array_equal(column[:], array)
    np.testing.assert_array_equal(column[990:1010], array[990:])
    rows = np.random.default_rng(1).integers(0, 1000, 5000)  # more than one reader's share, and every row several times
    np.testing.assert_array_equal(column[rows], array[rows])
    np.testing.assert_array_equal(column[rows.reshape(50, 100)], array[rows.reshape(50, 100)])
    assert column[rows[:0]].shape == (0, 3, 2)


def test_rows_in_another_dtype(stored, array):
    column = open_columns(stored).astype(np.float16)
    np.testing.assert_array_equal(column[5:9], array[5:9].astype(np.float16))
    np.testing.assert_array_equal(column[np.array([7, 3])], array[[7, 3]].astype(np.float16))


def test_all_rows_in_blocks_of_which_the_last_is_shorter(stored, array):
    data = {"x": open_columns(stored), "y": np.arange(1000)}
    firsts, blocks = zip(*stream(data, 300), strict=True)
    assert firsts == (0, 300, 600, 900)
    np.testing.assert_array_equal(np.concatenate([block["x"] for block in blocks]), array)
    np.testing.assert_array_equal(np.concatenate([block["y"] for block in blocks]), np.arange(1000))


def test_a_stream_can_be_left(stored, array):
    first, block = next(iter(stream(open_columns(stored), 10)))
    assert first == 0
    np.testing.assert_array_equal(block, array[:10])


def test_what_others_see_of_it(stored):
    data = {"x": open_columns(stored), "y": np.zeros(1000, np.float64)}
    assert on_disk(data)
    assert not on_disk({"y": data["y"]})
    assert host(data["x"]) is data["x"]
    assert shapes(data)["x"].shape == (1000, 3, 2)
    assert shapes(data)["y"] is data["y"]
    with pytest.raises(IndexError, match="step of 2"):
        data["x"][::2]

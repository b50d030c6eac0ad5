"""What is read into memory, and what is refused."""

import numpy as np
import pytest

from isotherm.data.on_disk import open_data
from isotherm.data.on_disk.column import Column
from isotherm.data.on_disk.open_data import open_columns


def memmap(path, array):
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def test_the_smallest_columns_are_read_into_memory(tmp_path, monkeypatch):
    """Up to KEPT_BYTES together, where all together are not small; what is open_columns stays so."""
    monkeypatch.setattr(open_data, "KEPT_BYTES", 1000)
    sizes = {"a": 60, "b": 200, "c": 10, "d": 100}  # 4 bytes each: 40 + 240 + 400 + 800
    data = open_columns({name: memmap(tmp_path / f"{name}.npy", np.arange(n, dtype="f4")) for name, n in sizes.items()})
    assert {name for name, column in data.items() if isinstance(column, Column)} == {"b"}
    np.testing.assert_array_equal(data["d"], np.arange(100))
    assert open_columns(data)["b"] is data["b"]


@pytest.mark.parametrize(("free", "on_disk"), [(8 * 1480 - 1, {"b", "d"}), (8 * 1480, set())])
def test_columns_that_are_small_beside_free_memory_are_read_into_it(tmp_path, monkeypatch, free, on_disk):
    """All or none: no larger together than an eighth of it."""
    monkeypatch.setattr(open_data, "KEPT_BYTES", 300)
    monkeypatch.setattr(open_data, "available", lambda: free)
    sizes = {"a": 60, "b": 200, "c": 10, "d": 100}  # 4 bytes each: 40 + 240 + 400 + 800
    data = open_columns({name: memmap(tmp_path / f"{name}.npy", np.arange(n, dtype="f4")) for name, n in sizes.items()})
    assert {name for name, column in data.items() if isinstance(column, Column)} == on_disk
    np.testing.assert_array_equal(data["d"][:], np.arange(100))


def test_a_memmap_whose_changes_are_not_in_the_file_is_an_array_in_memory(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(10))
    changed = np.load(tmp_path / "x.npy", mmap_mode="c")
    changed[3] = 1
    assert open_columns(changed) is changed


@pytest.mark.parametrize("part", [lambda x: x, lambda x: np.asarray(x).T[:, :3]], ids=["by columns", "in memory"])
def test_rows_must_be_in_one_piece(tmp_path, part):
    """Unless they are in memory anyway."""
    np.save(tmp_path / "x.npy", np.asfortranarray(np.zeros((10, 4))))
    stored = part(np.load(tmp_path / "x.npy", mmap_mode="r"))
    if isinstance(stored, np.memmap):
        with pytest.raises(ValueError, match=r"x\.npy is laid out by columns"):
            open_columns(stored)
    else:
        assert open_columns(stored) is stored


def test_a_dataset_that_is_being_written_goes_by_its_library(tmp_path, array):
    """What h5py has not written to the file yet is read too."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("a", data=array)
        np.testing.assert_array_equal(open_columns(dataset)[10:20], array[10:20])


def test_big_endian_numbers(tmp_path, array):
    column = open_columns(memmap(tmp_path / "x.npy", array.astype(">f4")))
    assert column.dtype.isnative
    np.testing.assert_array_equal(column[np.array([9, 4])], array[[9, 4]])

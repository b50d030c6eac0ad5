"""The same arrays in each form on disk, none of which is read into memory for being small."""

import numpy as np
import pytest

from isotherm.data.on_disk import open_data

RNG = np.random.default_rng(0)
ARRAY = RNG.standard_normal((1000, 3, 2)).astype(np.float32)


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    monkeypatch.setattr(open_data, "KEPT_BYTES", 0)
    monkeypatch.setattr(open_data, "available", lambda: 0)


@pytest.fixture
def array():
    return ARRAY


def memmap(folder, array):
    np.save(folder / "a.npy", array)
    return np.load(folder / "a.npy", mmap_mode="r")


def raw_memmap(folder, array):
    (folder / "a.bin").write_bytes(b"header." + array.tobytes())
    return np.memmap(folder / "a.bin", array.dtype, "r", 7, array.shape)


def sliced_memmap(folder, array):
    """Every other row of a file that begins with others."""
    more = np.zeros((2 * len(array) + 300, *array.shape[1:]), array.dtype)
    more[300::2] = array
    return memmap(folder, more)[300::2]


def zarr_array(folder, array):
    import zarr

    made = zarr.create_array(folder / "a.zarr", shape=array.shape, dtype=array.dtype, chunks=(64, *array.shape[1:]))
    made[:] = array
    return zarr.open_array(folder / "a.zarr", mode="r")


def hdf5(folder, array, **how):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("a", data=array, **how)
    return h5py.File(folder / "a.h5", "r")["a"]


def chunked_hdf5(folder, array):
    return hdf5(folder, array, chunks=(50, *array.shape[1:]), compression="gzip")


FORMS = [memmap, raw_memmap, sliced_memmap, zarr_array, hdf5, chunked_hdf5]


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__)
def stored(request, tmp_path, array):
    return request.param(tmp_path, array)

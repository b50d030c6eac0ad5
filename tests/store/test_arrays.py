"""Results as Zarr: what xarray reads is what was written, chunk by chunk."""

import hashlib

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import isotherm
from isotherm.store import arrays


def test_what_is_returned_is_read_when_looked_at(tmp_path, run):
    tree = run(tmp_path / "run.zarr")
    assert not tree["posterior"]["w"].variable._in_memory
    assert tree["posterior"]["w"].values.shape == (2, 100, 2)


def test_opens_with_xarray_in_any_way(tmp_path, run, uninterrupted, assert_same):
    run(tmp_path / "run.zarr")
    assert_same(xarray.open_datatree(tmp_path / "run.zarr", engine="zarr"), uninterrupted)
    for group in ("posterior", "sample_stats"):
        found = xarray.open_dataset(tmp_path / "run.zarr", engine="zarr", group=group, consolidated=False)
        assert set(found.variables) == set(uninterrupted[group].to_dataset().variables)


@pytest.mark.parametrize("name", ["__reserved", "zarr.json", "x" * 300, "line\nbreak"])
def test_names_that_no_folder_can_have_are_refused(tmp_path, run, name):
    posterior = isotherm.Posterior(lambda p, e: p[name] * e["y"], lambda p: -(p[name] ** 2))
    with pytest.raises(ValueError, match="cannot be the name of a stored array; rename it"):
        run(tmp_path / "run.zarr", posterior=posterior, init={name: np.float32(0)})
    assert {path.name for path in tmp_path.iterdir()} <= {"run.zarr"}


@pytest.mark.parametrize("name", ["w", "β", "layer.0.weight", "w 1", ".hidden", "x" * 200])
def test_names_of_arrays(name):
    assert arrays.is_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "β" * 101])
def test_names_that_lead_elsewhere(name):
    assert not arrays.is_name(name)


def grown(first, draws):
    """Draws `first` up to `first + draws`, each holding its own number, and something without draws."""
    numbers = np.arange(first, first + draws)
    w = xarray.DataArray(
        np.float32(numbers)[None, :, None] * np.ones((1, 1, 3), np.float32), dims=("chain", "draw", "i")
    )
    groups = {
        "posterior": xarray.Dataset({"w": w}, {"draw": numbers}),
        "sample_stats": xarray.Dataset({"last": ("chain", [first + draws])}),
    }
    return xarray.DataTree.from_dict(groups)


def test_chunks_and_what_is_left_are_read_as_one_array(tmp_path):
    digests = arrays.write_chunk(tmp_path, grown(0, 4), 0, 4) | arrays.write_chunk(tmp_path, grown(4, 4), 1, 4)
    assert set(digests) == {f"posterior/{name}" for name in ("w/c/0/0/0", "w/c/0/1/0", "draw/c/0", "draw/c/1")}
    for file, digest in digests.items():
        assert hashlib.sha256((tmp_path / file).read_bytes()).hexdigest() == digest
    for left in (0, 3):
        arrays.write_rest(tmp_path, grown(8, left), 2, 4)
        tree = arrays.open_results(tmp_path)
        np.testing.assert_array_equal(tree["posterior"]["w"].values[0, :, 0], np.arange(8 + left))
        np.testing.assert_array_equal(tree["posterior"]["draw"].values, np.arange(8 + left))
        assert tree["sample_stats"]["last"].values == [8 + left]


def test_a_flipped_byte_is_seen_by_readers(tmp_path):
    arrays.write_rest(tmp_path, grown(0, 3), 0, 4)
    file = tmp_path / "posterior/w/c/0/0/0"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        arrays.open_results(tmp_path)["posterior"]["w"].load()


def test_short_floats_are_stored_as_longer_ones():
    description, encoded = arrays.encode(xarray.Variable("draw", np.arange(3).astype(jnp.bfloat16)), 8)
    assert description["data_type"] == "float32"
    assert encoded
    description, encoded = arrays.encode(xarray.Variable("draw", np.zeros(0, np.float32)), 8)
    assert description["shape"] == [0]
    assert description["chunk_grid"]["configuration"]["chunk_shape"] == [8]
    assert encoded == b""

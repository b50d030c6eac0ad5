"""Where the data are changes nothing: in memory, in a memmap, in Zarr, in HDF5, converted from Parquet."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import isotherm
from isotherm.data.on_disk import open_data
from isotherm.data.on_disk.column import DataError
from isotherm.run import prefetch, recorder

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3000, 3)).astype(np.float32)
Y = np.where(RNG.random(3000) < 1 / (1 + np.exp(-X @ np.ones(3))), 1, -1).astype(np.float32)
MEMORY = {"x": X, "y": Y}
POSTERIOR = isotherm.Posterior(
    lambda theta, row: jax.nn.log_sigmoid(row["y"] * (row["x"] @ theta)), lambda theta: -0.5 * jnp.sum(theta**2)
)
SETTINGS = {"batch_size": 50, "steps": 200, "thin": 5, "chains": 2, "seed": 3, "progress": False}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Of about thirty steps, and nothing is read into memory for being small."""
    monkeypatch.setattr(open_data, "KEPT_BYTES", 0)
    monkeypatch.setattr(open_data, "available", lambda: 0)
    monkeypatch.setattr(prefetch, "BLOCK_BYTES", 2**16)


def memmap(folder, data=MEMORY):
    for name, column in data.items():
        np.save(folder / f"{name}.npy", column)
    return isotherm.datasets.open_arrays(folder)


def zarr(folder):
    import zarr

    for name, column in MEMORY.items():
        zarr.create_array(folder / f"{name}.zarr", data=column, chunks=(256, *column.shape[1:]))
    return {name: zarr.open_array(folder / f"{name}.zarr", mode="r") for name in MEMORY}


def hdf5(folder):
    """One dataset in one piece, one in chunks."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = X
        file.create_dataset("y", data=Y, chunks=(100,), compression="gzip")
    file = h5py.File(folder / "data.h5", "r")
    return {"x": file["x"], "y": file["y"]}


def parquet(folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y}), folder / "data.parquet")
    columns = {"x": ["a", "b", "c"], "y": "y"}
    return isotherm.datasets.convert(folder / "data.parquet", folder / "arrays", columns, progress=False)


def memmap_and_memory(folder):
    return memmap(folder, {"x": X}) | {"y": jnp.asarray(Y)}


def sampled(data, sampler, **changed):
    return isotherm.sample(POSTERIOR, sampler, data, jnp.zeros(3), **SETTINGS | changed)


def assert_same(tree, other):
    for group in ("posterior", "sample_stats", "posterior_mean", "posterior_variance"):
        for name in other[group].data_vars:
            np.testing.assert_array_equal(tree[group][name], other[group][name], err_msg=f"{group}/{name}")


@pytest.fixture(scope="module")
def in_memory():
    return sampled(MEMORY, isotherm.sgnht(0.01))


@pytest.mark.parametrize(
    "form", [memmap, memmap_and_memory, *(pytest.param(form, marks=pytest.mark.slow) for form in (zarr, hdf5, parquet))]
)
def test_draws_are_those_of_data_in_memory(form, tmp_path, in_memory):
    assert_same(sampled(form(tmp_path), isotherm.sgnht(0.01)), in_memory)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "changed"),
    [
        (isotherm.mccadl(0.01, covariance_batch="own"), {}),
        (isotherm.eccadl(), {"probabilities": 1 + np.arange(3000) % 7}),
        (isotherm.mccadl(0.01), {"replace": False}),
    ],
    ids=["second batch", "renewals, weighted", "without replacement"],
)
def test_whatever_a_sampler_asks_for(sampler, changed, tmp_path):
    assert_same(sampled(memmap(tmp_path), sampler, **changed), sampled(MEMORY, sampler, **changed))


@pytest.mark.slow
def test_numbers_of_64_bits_are_rounded_as_in_memory(tmp_path):
    data = {"x": X.astype(np.float64) + 1e-9, "y": Y.astype(np.int64)}
    posterior = isotherm.Posterior(
        lambda theta, row: jax.nn.log_sigmoid(row["y"].astype(jnp.float32) * (row["x"] @ theta)), POSTERIOR.log_prior
    )
    trees = [
        isotherm.sample(posterior, isotherm.sgld(1e-3), each, jnp.zeros(3), **SETTINGS)
        for each in (data, memmap(tmp_path, data))
    ]
    assert_same(*trees)


@pytest.mark.slow
def test_fit_and_check(tmp_path):
    """Anchoring, the batches by leverage and the verdict are the same, number for number."""
    data = memmap(tmp_path)
    trees = [isotherm.fit(POSTERIOR, each, jnp.zeros(3), chains=2, progress=False) for each in (data, MEMORY)]
    assert trees[0].attrs["fit_method"] == "anchored eccadl"
    assert_same(*trees)
    assert trees[0].attrs["anchor_passes"] == trees[1].attrs["anchor_passes"]
    verdicts = [isotherm.check(trees[1], POSTERIOR, each, progress=False) for each in (data, MEMORY)]
    assert verdicts[0] == verdicts[1]


def test_what_is_wrong_with_the_data_is_said_as_for_data_in_memory(tmp_path):
    bad = X.copy()
    bad[2345, 1] = np.nan
    with pytest.raises(ValueError, match=r"data\['x'\] .*got nan in row 2345, column 1"):
        sampled(memmap(tmp_path, {"x": bad, "y": Y}), isotherm.sgnht(0.01))
    with pytest.raises(ValueError, match=r"same number of rows, but data\['x'\] has 3000, data\['y'\] has 2999"):
        sampled(memmap(tmp_path, {"x": X, "y": Y[1:]}), isotherm.sgnht(0.01))
    log_of_a_column = isotherm.Posterior(lambda theta, row: jnp.log(2.5 + row["x"][0]) + theta[0], POSTERIOR.log_prior)
    row = int(np.argmax(X[:, 0] < -2.5))
    with pytest.raises(ValueError, match=f"got nan at init for row {row}"):
        isotherm.sample(log_of_a_column, isotherm.sgnht(0.01), memmap(tmp_path), jnp.zeros(3), **SETTINGS)


def test_a_file_that_becomes_shorter_ends_the_run_after_a_checkpoint(tmp_path, monkeypatch, in_memory):
    """Nothing stored is lost, and when it is mended the run goes on to the same draws. The store is one of data in
    memory too: it knows the numbers, not where they are."""
    data, path = memmap(tmp_path), tmp_path / "run.zarr"
    whole, size = (tmp_path / "x.npy").read_bytes(), 128 + 12 * 2000
    added = recorder.StoreRecorder.add

    def shortened(self, draws, first_bad_step):
        added(self, draws, first_bad_step)
        if self.count >= 10:
            os.truncate(tmp_path / "x.npy", size)

    with monkeypatch.context() as patched:
        patched.setattr(recorder.StoreRecorder, "add", shortened)
        with pytest.raises(DataError, match=rf"x\.npy has {size:,} bytes"):
            sampled(data, isotherm.sgnht(0.01), store=path)
    with pytest.raises((DataError, ValueError), match=r"x\.npy"):
        isotherm.resume(path, POSTERIOR, data, progress=False)
    (tmp_path / "x.npy").write_bytes(whole)
    assert_same(isotherm.resume(path, POSTERIOR, isotherm.datasets.open_arrays(tmp_path), progress=False), in_memory)
    again = sampled(MEMORY, isotherm.sgnht(0.01), store=tmp_path / "memory.zarr", steps=100)
    assert again.posterior.sizes["draw"] == 16
    other = memmap(tmp_path, {"x": X + 1, "y": Y})
    with pytest.raises(ValueError, match="other contents"):
        isotherm.resume(tmp_path / "memory.zarr", POSTERIOR, other, progress=False)

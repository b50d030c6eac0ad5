"""A file system that fills up in the middle of a run."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
import xarray

import isotherm

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("program.py")


@pytest.fixture
def program():
    spec = importlib.util.spec_from_file_location("program", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 800 kB in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=800k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mounting a file system needs more rights: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_fills_up(program, small_disk, tmp_path):
    steps, store = 60_000, small_disk / "run.zarr"
    whole = program.start(tmp_path / "whole.zarr", steps)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(250_000))
    with pytest.raises(isotherm.StoreError, match="no space"):
        program.start(store, steps)

    before = xarray.open_datatree(store, engine="zarr").load()
    draws = before["posterior"].sizes["draw"]
    assert draws > 0
    assert before["posterior"]["theta"].values.tobytes() == whole["posterior"]["theta"].values[:, :draws].tobytes()

    with pytest.raises(isotherm.StoreError, match="no space"):
        isotherm.resume(store, program.POSTERIOR, program.DATA, progress=False)
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=20m", small_disk], check=True)
    after = isotherm.resume(store, program.POSTERIOR, program.DATA, progress=False)
    for group in whole.children:
        for name, expected in whole[group].to_dataset().variables.items():
            assert after[group][name].values.tobytes() == expected.values.tobytes()

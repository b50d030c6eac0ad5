"""Real runs in real processes, killed at random moments: nothing stored is lost, and nothing comes out different."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("program.py")


def begin(store, steps, cache):
    """The program, with a cache of compiled code so that a restart costs less than it tests."""
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, str(PROGRAM), str(store), str(steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def complete(store, steps, cache):
    process = begin(store, steps, cache)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "done"
    return xarray.open_datatree(store, engine="zarr")


def opened(store):
    return xarray.open_datatree(store, engine="zarr").load()


def assert_same(tree, other):
    assert set(tree.children) == set(other.children)
    for group in other.children:
        found, expected = tree[group].to_dataset(), other[group].to_dataset()
        assert set(found.variables) == set(expected.variables)
        for name in expected.variables:
            assert found[name].values.tobytes() == expected[name].values.tobytes(), f"{group}/{name}"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, cache):
    """Uninterrupted runs by their number of steps, each made once."""
    made = {}

    def of(steps):
        if steps not in made:
            made[steps] = complete(tmp_path_factory.mktemp("whole") / "run.zarr", steps, cache)
        return made[steps]

    return of


def killed(store, steps, cache, kills, seed):
    """Kill the run `kills` times, at moments from before its first checkpoint to well into its loop."""
    rng = np.random.default_rng(seed)
    reached = []
    for kill in range(kills):
        process = begin(store, steps, cache)
        if kill % 5 == 4:
            time.sleep(rng.uniform(0, 2.0))  # while it imports, reads the checkpoint or compiles
        else:
            assert process.stdout.readline() == "running\n", process.stderr.read()
            time.sleep(rng.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, f"it ended before kill {kill}: {err}"
        reached.append(int(opened(store).attrs["steps_done"]))
    return reached


@pytest.mark.parametrize(
    ("kills", "steps"), [(3, 300_000), pytest.param(25, 600_000, marks=pytest.mark.long)], ids=["3", "25"]
)
def test_sigkill(tmp_path, cache, whole, kills, steps):
    reached = killed(tmp_path / "run.zarr", steps, cache, kills, seed=1)
    assert reached == sorted(reached), "a checkpoint was lost"
    assert 0 < reached[-1] < steps
    assert_same(complete(tmp_path / "run.zarr", steps, cache), whole(steps))


@pytest.mark.parametrize(
    ("signum", "status", "said"),
    [
        (signal.SIGTERM, 143, ""),
        (signal.SIGINT, 0, "interrupted\n"),
        pytest.param(signal.SIGHUP, 129, "", marks=pytest.mark.long),
    ],
    ids=["SIGTERM", "SIGINT", "SIGHUP"],
)
def test_a_clean_stop(tmp_path, cache, whole, signum, status, said):
    steps = 150_000
    process = begin(tmp_path / "run.zarr", steps, cache)
    assert process.stdout.readline() == "running\n", process.stderr.read()
    time.sleep(0.3)
    process.send_signal(signum)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (status, said, "")
    stopped = opened(tmp_path / "run.zarr")
    assert stopped.attrs["interrupted"] == 1
    assert 0 < stopped.attrs["steps_done"] < steps
    assert stopped["posterior"].sizes["draw"] == max(0, stopped.attrs["steps_done"] - steps // 10) // 50
    assert_same(complete(tmp_path / "run.zarr", steps, cache), whole(steps))


def test_two_processes_on_one_store(tmp_path, cache):
    first = begin(tmp_path / "run.zarr", 10**7, cache)
    assert first.stdout.readline() == "running\n"
    second = begin(tmp_path / "run.zarr", 10**7, cache)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert f"run.zarr is in use by process {first.pid} on host" in err.splitlines()[-1]
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=60)
    third = begin(tmp_path / "run.zarr", 10**7, cache)
    assert third.stdout.readline() == "running\n", third.stderr.read()
    third.send_signal(signal.SIGKILL)
    third.communicate(timeout=60)

"""A run on data on disk, in a real process that is killed: it goes on to the draws of a run on data in memory."""

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
STEPS = 60_000


@pytest.fixture(scope="module")
def begin(tmp_path_factory):
    """A function that starts the program, with a cache of compiled code for all its starts."""
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("compiled")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }

    def started(*arguments):
        command = [sys.executable, str(PROGRAM), *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    return started


def finished(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "done"


def test_killed_and_resumed(begin, tmp_path):
    data, store, whole = tmp_path / "data", tmp_path / "run.zarr", tmp_path / "whole.zarr"
    data.mkdir()
    for seconds in (0.1, 0.5):
        process = begin(store, STEPS, data)
        assert process.stdout.readline() == "running\n", process.stderr.read()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    finished(begin(store, STEPS, data))
    finished(begin(whole, STEPS))
    found, expected = (xarray.open_datatree(each, engine="zarr") for each in (store, whole))
    for group in expected.children:
        for name in expected[group].data_vars:
            np.testing.assert_array_equal(found[group][name], expected[group][name], err_msg=f"{group}/{name}")

"""Several processes, each with its share of the rows, on this machine: the draws are those of one process; when one is
killed, the rest stop and say so; and another number of them goes on."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("processes_program.py")
TOLERANCE = 1e-8  # as in test_devices.py
BOUND = 60.0  # seconds in which the rest must stop


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def started(action, folder, processes, killed=None, after=0):
    """So many processes, of which one may kill itself."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, PROGRAM, action, folder, *map(str, (process, processes, port))]
            + ([str(after)] if process == killed else []),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for process in range(processes)
    ]


def ended(running):
    """The status and the last words of each; none may be left behind."""
    try:
        said = [each.communicate(timeout=300)[0] for each in running]
    finally:
        for each in running:
            each.kill()
    return [(each.returncode, words) for each, words in zip(running, said, strict=True)]


def run(action, folder, processes):
    for status, words in ended(started(action, folder, processes)):
        assert status == 0, words


def draws(folder):
    return xarray.open_datatree(folder / "run.zarr", engine="zarr", chunks=None)["posterior"]["theta"].values


@pytest.fixture(scope="module")
def of_one_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    run("sample", folder, 1)
    return draws(folder)


def test_when_one_is_killed_the_rest_stop_and_another_number_goes_on(tmp_path, of_one_process):
    running = started("sample", tmp_path, 2, killed=1, after=100)
    running[1].wait(timeout=300)
    killed = time.monotonic()
    (status, words), (killed_status, _) = ended(running)
    assert time.monotonic() - killed < BOUND
    assert killed_status == -signal.SIGKILL
    assert status == 1
    assert "ProcessLost: another process of this run has ended or cannot be reached" in words
    assert draws(tmp_path).shape[1] < of_one_process.shape[1]
    run("resume", tmp_path, 3)
    np.testing.assert_allclose(draws(tmp_path), of_one_process, rtol=0, atol=TOLERANCE)


def test_a_signal_to_one_stops_all_in_good_order(tmp_path):
    """JAX has a handler of SIGTERM of its own where there are several processes, and it does not stop."""
    running = started("endless", tmp_path, 2)
    checkpoint = tmp_path / "run.zarr" / ".isotherm" / "checkpoint-1"
    for _ in range(1000):
        if checkpoint.exists() or any(each.poll() is not None for each in running):
            break
        time.sleep(0.2)
    running[1].terminate()
    (first, said_by_first), (second, said_by_second) = ended(running)
    assert first == 0, said_by_first
    assert second == 128 + signal.SIGTERM, said_by_second
    assert xarray.open_datatree(tmp_path / "run.zarr", engine="zarr", chunks=None).attrs["interrupted"]


def test_data_that_one_process_refuses_are_refused_by_all(tmp_path):
    (first, said_by_first), (second, said_by_second) = ended(started("refuse", tmp_path, 2))
    assert (first, second) == (1, 1)
    reason = "data['x'] must be finite, got nan in row 5, column 2"
    assert f"process 1 cannot go on, so no process can: {reason}" in said_by_first
    assert f"ValueError: {reason}" in said_by_second


def test_a_fault_of_one_in_the_midst_of_a_run_ends_all(tmp_path):
    (first, said_by_first), (second, said_by_second) = ended(started("full", tmp_path, 2))
    assert (first, second) == (1, 1)
    assert "StoreError: there is no space left" in said_by_first
    assert "process 0 cannot go on, so no process can: there is no space left" in said_by_second


@pytest.mark.long
def test_a_model_of_numpyro(tmp_path):
    """Each process makes it of its own rows."""
    pytest.importorskip("numpyro")
    for processes in (1, 2):
        (tmp_path / str(processes)).mkdir()
        run("numpyro", tmp_path / str(processes), processes)
    one, two = (draws(tmp_path / str(processes)) for processes in (1, 2))
    assert np.ptp(one) > 0.1
    np.testing.assert_allclose(two, one, rtol=0, atol=TOLERANCE)


@pytest.mark.long
def test_kills_at_any_moment_and_any_number_of_processes(tmp_path, of_one_process):
    """The first process too: JAX then ends the others itself, and says that another task died."""
    rng = np.random.default_rng(0)
    action, step = "sample", 0
    for step in (30, 90, 160, 220):
        processes = int(rng.integers(2, 5))
        running = started(action, tmp_path, processes, killed=int(rng.integers(processes)), after=step)
        statuses = [status for status, _ in ended(running)]
        assert statuses.count(-signal.SIGKILL) == 1
        assert 0 not in statuses
        action = "resume"
    run(action, tmp_path, 4)
    np.testing.assert_allclose(draws(tmp_path), of_one_process, rtol=0, atol=TOLERANCE)

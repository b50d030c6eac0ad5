"""One writer a run folder, and a second is told who the first is."""

import os
import re
import socket
import subprocess
import sys

import pytest

import isotherm
from isotherm.store.lock import Lock, holder_of


def test_a_second_writer_is_refused_with_the_first_ones_pid(tmp_path, run, resume):
    run(tmp_path / "run.zarr", steps=20)
    lock = Lock(tmp_path / "run.zarr" / ".isotherm" / "lock")
    with pytest.raises(isotherm.StoreError, match=f"in use by process {os.getpid()} on host "):
        resume(tmp_path / "run.zarr")
    lock.release()
    resume(tmp_path / "run.zarr")


def test_a_lock_left_by_a_killed_process_does_not_block(tmp_path, run, resume):
    run(tmp_path / "run.zarr", steps=20)
    path = tmp_path / "run.zarr" / ".isotherm" / "lock"
    program = """if True:
        import fcntl, sys, time
        file = open(sys.argv[1], "w")
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write('{"pid": 77, "host": "elsewhere", "since": "noon"}')
        file.flush()
        print("locked", flush=True)
        time.sleep(60)
    """
    holder = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
    holder.stdout.readline()
    with pytest.raises(isotherm.StoreError, match="in use by process 77 on host elsewhere since noon; wait for it"):
        resume(tmp_path / "run.zarr")
    holder.kill()
    holder.communicate()
    resume(tmp_path / "run.zarr")


def test_a_lock_is_held_until_it_is_released(tmp_path):
    path = tmp_path / "run.zarr" / ".isotherm" / "lock"
    first = Lock(path)
    here = f"process {os.getpid()} on host {re.escape(socket.gethostname())} since "
    with pytest.raises(isotherm.StoreError, match=f"^{tmp_path}/run.zarr is in use by {here}.*; wait for it or choose"):
        Lock(path)
    first.release()
    assert holder_of(path.read_text()).startswith(f"process {os.getpid()} on host ")
    path.write_text("x" * 1000)  # what was there before is gone
    Lock(path).release()
    assert path.read_text().count("\n") == 1
    assert "x" * 10 not in path.read_text()


def test_a_lock_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "target").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder", "target/lock"):
        with pytest.raises(isotherm.StoreError, match=f"^{tmp_path}/{name} cannot be opened: "):
            Lock(tmp_path / name)
    assert (tmp_path / "target").read_text() == "kept"


def test_who_holds_a_lock():
    assert holder_of('{"pid": 7, "host": "a", "since": "noon"}') == "process 7 on host a since noon"
    for text in ("", "[]", "7", '{"pid": 7}', '{"pid": "seven", "host": "a", "since": "noon"}', "[" * 4000):
        assert holder_of(text) == "another process"

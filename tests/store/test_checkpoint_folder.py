"""Nothing is overwritten, nothing that is not a run is taken for one, there is one writer, and a second is told who the
first is; the last good checkpoint is found."""

import os
import re
import socket
import subprocess
import sys

import pytest

import isotherm
from isotherm.lib.files import holder_of, lock
from isotherm.store.checkpoint import latest


def test_a_run_is_never_overwritten(tmp_path, run):
    run(tmp_path / "run.zarr", steps=20)
    with pytest.raises(ValueError, match="holds a run already; go on with isotherm"):
        run(tmp_path / "run.zarr")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="exists and is not a run of isotherm"):
        run(tmp_path / "mine")
    with pytest.raises(ValueError, match="exists and is not a run of isotherm"):
        run(tmp_path / "mine" / "thesis.tex")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_there_must_be_a_run_to_resume(tmp_path, run, resume):
    with pytest.raises(FileNotFoundError, match="there is no run of isotherm at"):
        resume(tmp_path / "none.zarr")
    assert not (tmp_path / "none.zarr").exists()
    with pytest.raises(TypeError, match="store must be the path of a folder, got 3"):
        resume(3)
    with pytest.raises(TypeError, match="store must be the path of a folder, got ''"):
        run("")


def test_a_run_that_stopped_before_its_first_checkpoint_starts_again(tmp_path, run, resume, uninterrupted, assert_same):
    with lock(tmp_path / "run.zarr" / ".isotherm" / "lock"):
        pass
    with pytest.raises(isotherm.StoreError, match="holds no checkpoint"):
        resume(tmp_path / "run.zarr")
    assert_same(run(tmp_path / "run.zarr"), uninterrupted)


@pytest.mark.parametrize(
    ("store", "error", "words"),
    [
        ("s3://bucket/run.zarr", ValueError, "store must be a folder on this machine, .* got 's3://bucket/run.zarr'"),
        ("no/such/folder/run.zarr", ValueError, "cannot be made: there is no folder '.*no/such/folder'"),
        ("x" * 300, isotherm.StoreError, "cannot be made: File name too long"),
    ],
    ids=["url", "parent", "long"],
)
def test_a_store_that_cannot_be_made_is_refused_before_any_work(tmp_path, monkeypatch, run, store, error, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        run(store)
    assert not list(tmp_path.iterdir())


def test_the_newest_checkpoint_that_is_whole(tmp_path, run):
    """The older one, with a warning, once the newest is damaged; none, once both are."""
    run(tmp_path / "run.zarr")
    newest = latest(tmp_path / "run.zarr")
    assert (newest.store, newest.header.step, newest.header.draws) == (tmp_path / "run.zarr", 400, 100)
    assert newest.arrays["carry.state.position"].shape == (2, 3)
    newest.path.write_bytes(newest.path.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match=f"{newest.path} is damaged .*; going on from checkpoint-[01], at step"):
        older = latest(tmp_path / "run.zarr")
    assert older.header.serial == newest.header.serial - 1
    older.path.write_bytes(b"")
    with pytest.raises(isotherm.StoreError, match=r"cannot be resumed: .*checkpoint-0 .*checkpoint-1 .* from a copy"):
        latest(tmp_path / "run.zarr")


def test_a_second_writer_is_refused_with_the_first_ones_pid(tmp_path, run, resume):
    run(tmp_path / "run.zarr", steps=20)
    with (
        lock(tmp_path / "run.zarr" / ".isotherm" / "lock"),
        pytest.raises(isotherm.StoreError, match=f"in use by process {os.getpid()} on host "),
    ):
        resume(tmp_path / "run.zarr")
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
    here = f"process {os.getpid()} on host {re.escape(socket.gethostname())} since "
    said = f"^{tmp_path}/run.zarr is in use by {here}.*; wait for it or choose"
    with lock(path), pytest.raises(isotherm.StoreError, match=said), lock(path):
        pass
    assert holder_of(path.read_text()).startswith(f"process {os.getpid()} on host ")
    path.write_text("x" * 1000)  # what was there before is gone
    with lock(path):
        pass
    assert path.read_text().count("\n") == 1
    assert "x" * 10 not in path.read_text()


def test_a_lock_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "target").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder", "target/lock"):
        with pytest.raises(isotherm.StoreError, match=f"^{tmp_path}/{name} cannot be opened: "), lock(tmp_path / name):
            pass
    assert (tmp_path / "target").read_text() == "kept"


def test_who_holds_a_lock():
    assert holder_of('{"pid": 7, "host": "a", "since": "noon"}') == "process 7 on host a since noon"
    for text in ("", "[]", "7", '{"pid": 7}', '{"pid": "seven", "host": "a", "since": "noon"}', "[" * 4000):
        assert holder_of(text) == "another process"

import errno
import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading

import pytest

import isotherm
from isotherm.lib import files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("durable", [True, False])
def test_puts_the_pieces_in_place_and_tells_their_digest(tmp_path, durable):
    path = tmp_path / "new" / "folder" / "file"
    digest = files.write(
        path, (piece for piece in (b"one ", bytearray(b"two "), memoryview(b"three"))), durable=durable
    )
    assert path.read_bytes() == b"one two three"
    assert digest == hashlib.sha256(b"one two three").hexdigest()
    assert files.write(path, [], durable=durable) == hashlib.sha256().hexdigest()
    assert path.read_bytes() == b""
    assert names(path.parent) == ["file"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    files.write(tmp_path / "ours", [b""])
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("fault", [RuntimeError, KeyboardInterrupt, OSError("no errno, no file")])
def test_pieces_that_fail_leave_the_old_file(tmp_path, fault):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def pieces():
        yield b"new"
        raise fault

    with pytest.raises(fault if isinstance(fault, type) else OSError) as caught:
        files.write(path, pieces())
    assert caught.value is fault or isinstance(fault, type)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_folder_in_the_way_is_named_and_nothing_is_left(tmp_path):
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        files.write(path, [b"new"])
    assert caught.value.filename == str(path)
    assert str(caught.value).endswith(f"{str(path)!r}")
    assert names(tmp_path) == ["file"]


def test_a_file_where_the_folder_should_be_is_named(tmp_path):
    (tmp_path / "folder").write_bytes(b"old")
    with pytest.raises(FileExistsError, match=rf"{tmp_path / 'folder'}'$"):
        files.write(tmp_path / "folder" / "file", [b"new"])
    assert (tmp_path / "folder").read_bytes() == b"old"


def test_a_write_that_the_system_refuses_is_named(tmp_path):
    """A limit on the size of files stands for a full disk: the write itself fails, half way."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match=f"File too large: '{path}'$"):
            files.write(path, [bytes(1 << 19)] * 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_name_too_long_is_named(tmp_path):
    path = tmp_path / ("n" * 300)
    with pytest.raises(OSError, match=f"File name too long: '{path}'$"):
        files.write(path, [b"new"])


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(FileNotFoundError) as caught, files.replacing(tmp_path / "file"):
        pass
    assert caught.value.filename == str(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_an_error_about_another_file_stays_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"'/no/such/input'$"), files.replacing(tmp_path / "file"):
        os.stat("/no/such/input")
    assert names(tmp_path) == []


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    """The second writes its file from start to end while the first is in the middle of its own."""
    path = tmp_path / "file"
    started, finished = threading.Event(), threading.Event()

    def slow():
        yield b"first "
        started.set()
        assert finished.wait(60)
        yield b"writer"

    first = threading.Thread(target=files.write, args=(path, slow()))
    first.start()
    assert started.wait(60)
    files.write(path, [b"second writer"])
    assert path.read_bytes() == b"second writer"
    finished.set()
    first.join()
    assert path.read_bytes() == b"first writer"
    assert names(tmp_path) == ["file"]


WRITER = """
import signal, sys, time
from pathlib import Path
from isotherm.lib import files

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored

def pieces():
    yield b"new" * 100_000
    print("half", flush=True)
    time.sleep(600)

files.write(Path(sys.argv[1]), pieces())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_writer_stopped_half_way_leaves_the_old_file(tmp_path, number):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with writer:
        assert writer.stdout.readline() == "half\n"
        os.kill(writer.pid, number)
    assert writer.returncode != 0
    assert path.read_bytes() == b"old"
    left = [name for name in names(tmp_path) if name != "file"]
    assert all(name.startswith("file.") and name.endswith(files.PARTIAL) for name in left)
    assert len(left) == (number == signal.SIGKILL)  # only a kill leaves no time to tidy up
    files.write(path, [b"new"])
    assert path.read_bytes() == b"new"


def test_write_puts_the_pieces_in_place_and_tells_their_digest(tmp_path):
    path = tmp_path / "made" / "file"
    told = files.write_stored(path, [b"one", memoryview(b" two")])
    assert path.read_bytes() == b"one two"
    assert told == files.digest(path) == hashlib.sha256(b"one two").hexdigest()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "there is no space left for writing {}"),
        (errno.EDQUOT, "there is no space left for writing {}"),
        (errno.EIO, "Input/output error for writing {}"),
    ],
    ids=["space", "quota", "fault"],
)
def test_a_write_that_fails_names_the_file(tmp_path, monkeypatch, number, words):
    def failing(handle):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(isotherm.StoreError) as caught:
        files.write_stored(tmp_path / "file", [b"content"])
    assert str(caught.value) == words.format(tmp_path / "file")
    assert caught.value.errno == number
    assert not list(tmp_path.iterdir())


def test_what_need_not_be_durable_is_not_flushed(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    files.write_stored(tmp_path / "file", [b"content"], durable=False)
    assert not flushed
    files.write_stored(tmp_path / "file", [b"content"])
    assert flushed


def test_open_plain_opens_plain_files_alone(tmp_path):
    (tmp_path / "plain").write_bytes(b"content")
    with files.open_plain(tmp_path / "plain") as file:
        assert file.read() == b"content"
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    said = {
        "none": "{} is missing",
        "link": "{} cannot be read: " + os.strerror(errno.ELOOP),
        "pipe": "{} is not a plain file",
        "folder": "{} is not a plain file",
    }
    for name, words in said.items():
        for reading in (files.open_plain, files.digest):
            with pytest.raises(isotherm.StoreError) as caught:
                reading(tmp_path / name)
            assert str(caught.value) == words.format(tmp_path / name)


def test_what_a_killed_writer_left_is_removed(tmp_path):
    kept = {tmp_path / "file", tmp_path / "folder.partial", tmp_path / "inside" / "partial"}
    (tmp_path / "folder.partial").mkdir()
    (tmp_path / "inside").mkdir()
    for path in (tmp_path / "file", tmp_path / "inside" / "partial"):
        path.write_bytes(b"")
    for path in (tmp_path / "file.0a.partial", tmp_path / "inside" / "other.partial"):
        path.write_bytes(b"half")
    files.remove_partial_files(tmp_path)
    assert set(tmp_path.rglob("*")) == kept | {tmp_path / "inside"}

"""Plain files only, and faults that name the file."""

import errno
import hashlib
import os

import pytest

import isotherm
from isotherm.store import disk


def test_write_puts_the_pieces_in_place_and_tells_their_digest(tmp_path):
    path = tmp_path / "made" / "file"
    told = disk.write(path, [b"one", memoryview(b" two")])
    assert path.read_bytes() == b"one two"
    assert told == disk.digest(path) == hashlib.sha256(b"one two").hexdigest()


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
        disk.write(tmp_path / "file", [b"content"])
    assert str(caught.value) == words.format(tmp_path / "file")
    assert caught.value.errno == number
    assert not list(tmp_path.iterdir())


def test_what_need_not_be_durable_is_not_flushed(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    disk.write(tmp_path / "file", [b"content"], durable=False)
    assert not flushed
    disk.write(tmp_path / "file", [b"content"])
    assert flushed


def test_open_plain_opens_plain_files_alone(tmp_path):
    (tmp_path / "plain").write_bytes(b"content")
    with disk.open_plain(tmp_path / "plain") as file:
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
        for reading in (disk.open_plain, disk.digest):
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
    disk.remove_partial_files(tmp_path)
    assert set(tmp_path.rglob("*")) == kept | {tmp_path / "inside"}

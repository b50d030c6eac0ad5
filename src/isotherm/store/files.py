"""Files of a run folder: written whole or not at all, read only if they are plain files, locked while in use."""

import errno
import fcntl
import hashlib
import json
import os
import socket
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PARTIAL = ".partial"  # the name of a file while it is being written ends so


class StoreError(OSError):
    """A fault of a run folder: in use, damaged, out of space. The message names the file."""

    def __str__(self) -> str:
        return str(self.strerror)


def write(path: Path, pieces: Iterable[Any], durable: bool = True) -> str:
    """Put a file in place at once, under another name until it is complete; its SHA-256.

    `durable`: it outlives a power cut, not only a kill.
    """
    partial = path.with_name(path.name + PARTIAL)
    digest = hashlib.sha256()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        reason = "there is no space left" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
        raise StoreError(error.errno, f"{reason} for writing {path}") from error
    if durable:
        sync_folder(path.parent)
    return digest.hexdigest()


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(error.errno, f"{folder} cannot be made: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_plain(path: Path) -> Any:
    """A file open for reading; a link, a pipe or a device is refused rather than followed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise StoreError(errno.ENOENT, f"{path} is missing") from None
    except OSError as error:
        raise StoreError(error.errno, f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StoreError(errno.EINVAL, f"{path} is not a plain file")
    return os.fdopen(handle, "rb")


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def clean(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for path in folder.rglob("*" + PARTIAL):
        if path.is_file():
            path.unlink()


class Lock:
    """One writer a folder. The kernel lets go of the lock when its process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self.file = os.fdopen(os.open(path, flags, 0o644), "r+")
        except OSError as error:
            raise StoreError(error.errno, f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = holder_of(self.file.read(4096))
            self.file.close()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise StoreError(error.errno, f"{path} cannot be locked: {error.strerror}") from error
            raise StoreError(
                errno.EAGAIN, f"{path.parent.parent} is in use by {holder}; wait for it or choose another store"
            ) from None
        self.file.seek(0)
        self.file.truncate()
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        self.file.write(json.dumps(owner) + "\n")
        self.file.flush()

    def release(self) -> None:
        """The file stays, and says who was last; without the kernel's lock it blocks nobody."""
        self.file.close()


def holder_of(text: str) -> str:
    """Who a lock file says holds it."""
    try:
        owner = json.loads(text)
        return f"process {int(owner['pid'])} on host {str(owner['host'])[:100]} since {str(owner['since'])[:30]}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return "another process"

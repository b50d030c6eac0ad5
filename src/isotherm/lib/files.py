"""Files put in place at once: written beside their place under a temporary name, then renamed.

Whenever the writer is killed, a reader finds the old content or the new, never half of either. Faults of the files of a
run are StoreErrors, in a sentence that names the file. One process at a time writes in a folder that it has locked.
"""

import errno
import hashlib
import json
import os
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

LOCK_BYTES = 4096  # of a lock file that are read: ours are below 200
PARTIAL = ".partial"  # temporary names end so; a file that keeps such a name was left by a writer that was killed


def write(path: Path, pieces: Iterable[bytes | bytearray | memoryview], *, durable: bool = True) -> str:
    """Put the pieces, joined, in place as `path`; return the SHA-256 of the file, in hexadecimal."""
    digest = hashlib.sha256()
    with replacing(path, durable=durable) as partial, open(partial, "xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; when the block ends, the file there takes the place of `path`.

    If the block raises, the temporary file is removed and `path` stays as it was. The temporary name is new each
    time, so that two writers of one file do not meet; the last to finish wins. Missing folders are made.
    `durable`: the file outlives a power cut, not only the end of the process. An OSError names `path`.
    """
    partial = path.with_name(f"{path.name}.{os.urandom(4).hex()}{PARTIAL}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        if durable:
            sync(partial)
        os.replace(partial, path)
        if durable:
            sync(path.parent)  # the rename is an entry of the folder
    except OSError as error:
        if error.errno is None or error.filename not in {None, str(partial)}:
            raise  # it says itself what it is about
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def sync(path: Path) -> None:
    """Wait until what was written to a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class StoreError(OSError):
    """A fault of a run folder: in use, damaged, out of space. The message names the file."""

    def __str__(self) -> str:
        return str(self.strerror)


def write_stored(path: Path, pieces: Iterable[bytes | memoryview], *, durable: bool = True) -> str:
    """Put a file of a run in place as `write` does; StoreError if that fails."""
    try:
        return write(path, pieces, durable=durable)
    except OSError as error:
        reason = "there is no space left" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
        raise StoreError(error.errno, f"{reason} for writing {path}") from error


def open_plain(path: Path) -> BufferedReader:
    """Open a file for reading; refuse a link, a pipe or a device rather than follow it."""
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
    """Return the SHA-256 of a file."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_partial_files(folder: Path) -> None:
    """Remove the files that a killed process left half written."""
    for path in folder.rglob("*" + PARTIAL):
        if path.is_file():
            path.unlink()


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Lock a folder for one writer. The kernel lets go of the lock when its process ends, however it ends. The file
    stays, and says who was last; without the kernel's lock it blocks nobody."""
    try:
        import fcntl
    except ModuleNotFoundError:
        reason = "a store needs the file locks of Unix, which this system does not have; sample without store="
        raise StoreError(errno.ENOSYS, reason) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644), "r+")
    except OSError as error:
        raise StoreError(error.errno, f"{path} cannot be opened: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise StoreError(error.errno, f"{path} cannot be locked: {error.strerror}") from error
            in_use = f"{path.parent.parent} is in use by {holder_of(file.read(LOCK_BYTES))}"
            raise StoreError(errno.EAGAIN, f"{in_use}; wait for it or choose another store") from None
        file.truncate()
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        file.write(json.dumps(owner) + "\n")
        file.flush()
        yield


def holder_of(text: str) -> str:
    """Return in words who holds a lock, by the text of its file."""
    try:
        owner = json.loads(text)
        return f"process {int(owner['pid'])} on host {str(owner['host'])[:100]} since {str(owner['since'])[:30]}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return "another process"

"""Files of a run folder, with faults in words that name the file."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path

from isotherm.lib import files


class StoreError(OSError):
    """A fault of a run folder: in use, damaged, out of space. The message names the file."""

    def __str__(self) -> str:
        return str(self.strerror)


def write(path: Path, pieces: Iterable[bytes | memoryview], *, durable: bool = True) -> str:
    """Put a file in place at once; its SHA-256. `durable`: it outlives a power cut, not only a kill."""
    try:
        return files.write(path, pieces, durable=durable)
    except OSError as error:
        reason = "there is no space left" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
        raise StoreError(error.errno, f"{reason} for writing {path}") from error


def open_plain(path: Path) -> BufferedReader:
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


def remove_partial_files(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for path in folder.rglob("*" + files.PARTIAL):
        if path.is_file():
            path.unlink()

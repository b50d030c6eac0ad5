"""Files put in place at once: written beside their place under a temporary name, then renamed.

Whenever the writer is killed, a reader finds the old content or the new, never half of either.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL = ".partial"  # temporary names end so; a file that keeps such a name was left by a writer that was killed


def write(path: Path, pieces: Iterable[bytes | bytearray | memoryview], *, durable: bool = True) -> str:
    """Put the pieces, joined, in place as `path`; the SHA-256 of the file, in hexadecimal."""
    digest = hashlib.sha256()
    with replacing(path, durable=durable) as partial, open(partial, "xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A temporary path to write to; when the block ends, the file there takes the place of `path`.

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

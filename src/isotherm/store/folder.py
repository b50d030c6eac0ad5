"""A run folder in the hands of one process: who may write there, and the last good checkpoint in it."""

import errno
import json
import math
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from isotherm.lib import files
from isotherm.lib.files import StoreError
from isotherm.lib.warn import warn
from isotherm.store import arrays, checkpoint
from isotherm.store.checkpoint import Header, damaged

HIDDEN = ".isotherm"  # what in the folder is not Zarr's
LOCK_BYTES = 4096  # of a lock file that are read: ours are below 200
StorePath: TypeAlias = str | os.PathLike[str]
SAMPLER = "sampler."  # what the names of a sampler's arrays begin with


class Checkpoint(NamedTuple):
    """The content of a checkpoint, and where it was read."""

    header: Header
    arrays: dict[str, np.ndarray]
    path: Path

    @property
    def store(self) -> Path:
        return self.path.parent.parent

    def part(self, prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}


@contextmanager
def locked(path: Path, *, new: bool) -> Iterator[None]:
    """Make this process the only writer of a run folder; refuse one that is to be `new` and holds anything."""
    (check_free if new else check_is_run)(path)
    with lock(path / HIDDEN / "lock"):
        if new:
            check_free(path)
        files.remove_partial_files(path)
        yield


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


def latest(path: Path) -> Checkpoint:
    """Read the newest checkpoint that is whole, with every draw it counts on; warn if a newer one is not."""
    good, faults = [], []
    first, second = slots(path)
    if not (first.exists() or second.exists()):
        raise StoreError(
            errno.ENOENT,
            f"{path} holds no checkpoint: the run stopped before its first, or {first.name} was removed; start it "
            "again with isotherm.sample(…, store=…)",
        )
    for slot in (first, second):
        try:
            good.append(read_checkpoint(slot))
        except StoreError as error:
            if error.errno == errno.EPROTONOSUPPORT:
                raise
            faults.append(str(error))
    for each in sorted(good, key=lambda each: -each.header.serial):
        try:
            check_chunks(each)
        except StoreError as error:
            faults.append(str(error))
            continue
        if faults and not (each.header.serial == 0 and faults == [f"{second} is missing"]):
            warn(f"{'; '.join(faults)}; going on from {each.path.name}, at step {each.header.step}")
        return each
    raise StoreError(errno.EILSEQ, f"{path} cannot be resumed: {'; '.join(faults)}. Put the file back from a copy.")


def check_chunks(saved: Checkpoint) -> None:
    """Refuse a checkpoint unless every chunk of draws that it counts on is there, byte for byte."""
    for name, expected in saved.header.digests.items():
        if not all(map(arrays.is_name, name.split("/"))):
            raise damaged(saved.path, f"it names the file {name[:100]!r}")
        if files.digest(saved.store / name) != expected:
            raise damaged(saved.store / name, "its checksum is wrong")


def slots(path: Path) -> list[Path]:
    return [path / HIDDEN / f"checkpoint-{slot}" for slot in (0, 1)]


def as_path(store: StorePath) -> Path:
    """Return the argument `store` as the path of a folder on this machine."""
    if not isinstance(store, str | os.PathLike) or not os.fspath(store):
        raise TypeError(f"store must be the path of a folder, got {store!r}")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", os.fspath(store)):
        raise ValueError(f"store must be a folder on this machine, such as 'run.zarr', got {os.fspath(store)!r}")
    return Path(store)


def check_new(store: StorePath) -> Path:
    """Return the path of a run to be made; refuse it if its parent does not exist or something is in its way."""
    path = as_path(store)
    try:
        if not path.absolute().parent.is_dir():
            raise ValueError(f"store={str(path)!r} cannot be made: there is no folder {str(path.absolute().parent)!r}")
        check_free(path)
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise StoreError(error.errno, f"store={str(path)!r} cannot be made: {error.strerror}") from error
    return path


def check_free(path: Path) -> None:
    """Refuse to overwrite a run or anything else; what stopped before its first checkpoint is no run."""
    occupied = os.path.lexists(path) and (not path.is_dir() or any(path.iterdir()))
    if any(slot.exists() for slot in slots(path)):
        raise ValueError(
            f"store={str(path)!r} holds a run already; go on with isotherm.resume({str(path)!r}, …), "
            "choose another name, or remove it first"
        )
    if occupied and not (path / HIDDEN).is_dir():
        raise ValueError(f"store={str(path)!r} exists and is not a run of isotherm; choose another name")


def check_is_run(path: Path) -> None:
    if not (path / HIDDEN).is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no run of isotherm at {path}")


def run_name(store: StorePath) -> str | None:
    """Return the name of a stored run, from a checkpoint's header alone; None if it has no name."""
    path = as_path(store)
    check_is_run(path)
    faults = []
    for slot in slots(path):
        try:
            name = checkpoint.read_header(slot).get("name")
            return name if isinstance(name, str) else None
        except StoreError as error:
            faults.append(str(error))
    raise StoreError(errno.EILSEQ, f"{path} holds no checkpoint that can be read: {'; '.join(faults)}")


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint that holds what it must, of sizes that fit together; nothing is allocated before this."""
    content, stored = checkpoint.read(path)
    try:
        header = Header.from_json(content)
    except (ValueError, TypeError) as error:
        raise damaged(path, str(error)) from error
    position, leaves = stored.get("carry.state.position"), header.layout["leaves"]
    if position is None or position.shape != (header.chains, sum(math.prod(leaf["shape"]) for leaf in leaves)):
        raise damaged(path, "the positions in it do not have the shape that its layout says")
    if any(leaf["dtype"] not in checkpoint.DTYPES for leaf in leaves):
        raise damaged(path, "its layout names an unknown dtype")
    return Checkpoint(header, stored, path)

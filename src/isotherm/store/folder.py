"""A run folder in the hands of one process: who may write there, and the last good checkpoint in it."""

import errno
import os
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isotherm.store import arrays, checkpoint, disk, identity
from isotherm.store.checkpoint import damaged
from isotherm.store.disk import StoreError
from isotherm.store.header import Header
from isotherm.store.lock import Lock

HIDDEN = ".isotherm"  # what in the folder is not Zarr's
SAMPLER = "sampler."  # what the names of a sampler's arrays begin with


class Checkpoint(NamedTuple):
    """What was written, and where it was read."""

    header: Header
    arrays: dict[str, np.ndarray]
    path: Path

    @property
    def store(self) -> Path:
        return self.path.parent.parent

    def sampler_arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array(array) for name, array in self.part(SAMPLER).items()}

    def part(self, prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}


class Folder:
    """A folder locked for this process; `close` lets go of it."""

    def __init__(self, path: Path, new: bool) -> None:
        self.path, self.slots = path, slots(path)
        if new:
            check_free(path)
        else:
            check_is_run(path)
        self.lock = Lock(path / HIDDEN / "lock")
        try:
            if new:
                check_free(path)
            disk.remove_partial_files(path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.lock.release()

    def latest(self) -> Checkpoint:
        """The newest checkpoint that is whole, with every draw it counts on; a warning if it is not the newest."""
        if not any(slot.exists() for slot in self.slots):
            raise StoreError(
                errno.ENOENT,
                f"{self.path} holds no checkpoint: the run stopped before its first, or {self.slots[0].name} was "
                "removed; start it again with isotherm.sample(…, store=…)",
            )
        good, faults = [], []
        for slot in self.slots:
            try:
                good.append(read_checkpoint(slot))
            except StoreError as error:
                if error.errno == errno.EPROTONOSUPPORT:
                    raise
                faults.append(str(error))
        for each in sorted(good, key=lambda each: -each.header.serial):
            try:
                self.check_chunks(each)
            except StoreError as error:
                faults.append(str(error))
                continue
            if faults and not (each.header.serial == 0 and faults == [f"{self.slots[1]} is missing"]):
                warnings.warn(
                    f"{'; '.join(faults)}; going on from {each.path.name}, at step {each.header.step}",
                    RuntimeWarning,
                    stacklevel=3,
                )
            return each
        raise StoreError(
            errno.EILSEQ, f"{self.path} cannot be resumed: {'; '.join(faults)}. Put the file back from a copy."
        )

    def check_chunks(self, saved: Checkpoint) -> None:
        """Every chunk of draws that a checkpoint counts on is there, byte for byte."""
        for name, expected in saved.header.digests.items():
            if not all(map(arrays.is_name, name.split("/"))):
                raise damaged(saved.path, f"it names the file {name[:100]!r}")
            if disk.digest(self.path / name) != expected:
                raise damaged(self.path / name, "its checksum is wrong")


def slots(path: Path) -> list[Path]:
    return [path / HIDDEN / f"checkpoint-{slot}" for slot in (0, 1)]


def as_path(store: str | os.PathLike[str]) -> Path:
    """The argument `store` as the path of a folder on this machine."""
    if not isinstance(store, str | os.PathLike) or not os.fspath(store):
        raise TypeError(f"store must be the path of a folder, got {store!r}")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", os.fspath(store)):
        raise ValueError(f"store must be a folder on this machine, such as 'run.zarr', got {os.fspath(store)!r}")
    return Path(store)


def check_new(store: str | os.PathLike[str]) -> Path:
    """The path of a run to be made, if it can be made there: the folder it is in exists, and nothing is in its way."""
    path = as_path(store)
    try:
        if not path.absolute().parent.is_dir():
            raise ValueError(f"store={str(path)!r} cannot be made: there is no folder {str(path.absolute().parent)!r}")
        check_free(path)
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise StoreError(error.errno, f"store={str(path)!r} cannot be made: {error.strerror}") from error
    return path


def check_free(path: Path) -> None:
    """Nothing is overwritten: not a run, not anything else; what stopped before its first checkpoint is no run."""
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


def run_name(store: str | os.PathLike[str]) -> str | None:
    """What a stored run is called, from a checkpoint's header alone; None if it has no name."""
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
    """A checkpoint that holds what it must, of sizes that fit together; nothing is allocated before this."""
    content, stored = checkpoint.read(path)
    try:
        header = Header.from_json(content)
    except (ValueError, TypeError) as error:
        raise damaged(path, str(error)) from error
    position = stored.get("carry.state.position")
    if position is None or position.shape != (header.chains, identity.size(header.layout)):
        raise damaged(path, "the positions in it do not have the shape that its layout says")
    if any(leaf["dtype"] not in checkpoint.DTYPES for leaf in header.layout["leaves"]):
        raise damaged(path, "its layout names an unknown dtype")
    return Checkpoint(header, stored, path)

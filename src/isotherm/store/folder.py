"""A run folder in the hands of one process: who may write there, and the last good checkpoint in it."""

import errno
import os
import warnings
from pathlib import Path
from typing import Any

from isotherm.store import arrays, checkpoint, description, files
from isotherm.store.checkpoint import Checkpoint, damaged
from isotherm.store.files import StoreError

HIDDEN = ".isotherm"  # what in the folder is not Zarr's

# What a header must hold: a type, a list of one kind, or an object with at least these entries. Integers are ≥ 0.
HEADER: dict[str, Any] = {
    "serial": int,
    "step": int,
    "draws": int,
    "chunk": int,
    "seconds": float,
    "chains": int,
    "seed": int,
    "plan": {"steps": int, "burn_in": int, "thin": int},
    "batches": {"population": int, "size": int, "replace": bool},
    "sampler": {"name": str, "settings": dict},
    "layout": {"leaves": [{"name": str, "shape": [int], "dtype": str}]},
    "data": [{"name": str, "shape": [int], "dtype": str, "sha256": str}],
    "model": {"log_likelihood": float, "log_prior": float},
    "numerics": dict,
    "versions": dict,
    "digests": dict,
}


class Folder:
    """A folder locked for this process; `close` lets go of it."""

    def __init__(self, path: str | os.PathLike[str], new: bool) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise TypeError(f"store must be the path of a folder, got {path!r}")
        self.path = Path(path)
        self.slots = [self.path / HIDDEN / f"checkpoint-{slot}" for slot in (0, 1)]
        if new:
            self.check_free()
        elif not (self.path / HIDDEN).is_dir():
            raise FileNotFoundError(errno.ENOENT, f"there is no run of isotherm at {self.path}")
        self.lock = files.Lock(self.path / HIDDEN / "lock")
        try:
            if new:
                self.check_free()
            files.clean(self.path)
        except BaseException:
            self.close()
            raise

    def check_free(self) -> None:
        """Nothing is overwritten: not a run, not anything else; what stopped before its first checkpoint is no run."""
        if any(slot.exists() for slot in self.slots):
            raise ValueError(
                f"store={str(self.path)!r} holds a run already; go on with isotherm.resume({str(self.path)!r}, …), "
                "choose another name, or remove it first"
            )
        occupied = self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir()))
        if occupied and not (self.path / HIDDEN).is_dir():
            raise ValueError(f"store={str(self.path)!r} exists and is not a run of isotherm; choose another name")

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
                good.append(conforming(checkpoint.read(slot)))
            except StoreError as error:
                faults.append(str(error))
        for found in sorted(good, key=lambda each: -each.header["serial"]):
            try:
                self.check_chunks(found)
            except StoreError as error:
                faults.append(str(error))
                continue
            if faults and not (found.header["serial"] == 0 and faults == [f"{self.slots[1]} is missing"]):
                warnings.warn(
                    f"{'; '.join(faults)}; going on from {found.path.name}, at step {found.header['step']}",
                    RuntimeWarning,
                    stacklevel=3,
                )
            return found
        raise StoreError(
            errno.EILSEQ, f"{self.path} cannot be resumed: {'; '.join(faults)}. Put the file back from a copy."
        )

    def check_chunks(self, found: Checkpoint) -> None:
        """Every chunk of draws that a checkpoint counts on is there, byte for byte."""
        for name, expected in found.header["digests"].items():
            if not all(map(arrays.is_name, name.split("/"))):
                raise damaged(found.path, f"it names the file {name[:100]!r}")
            if files.digest(self.path / name) != expected:
                raise damaged(self.path / name, "its checksum is wrong")


def conforming(found: Checkpoint) -> Checkpoint:
    """A checkpoint that holds what it must, of sizes that fit together; nothing is allocated before this."""
    header = found.header
    wrong = unlike(header, HEADER, "header")
    if wrong:
        raise damaged(found.path, wrong)
    position = found.arrays.get("carry.state.position")
    if position is None or position.shape != (header["chains"], description.size(header["layout"])):
        raise damaged(found.path, "the positions in it do not have the shape that its layout says")
    if any(leaf["dtype"] not in checkpoint.DTYPES for leaf in header["layout"]["leaves"]):
        raise damaged(found.path, "its layout names an unknown dtype")
    if not header["chunk"] or not header["plan"]["thin"] or not header["batches"]["size"]:
        raise damaged(found.path, "a size in it is zero")
    return found


def unlike(value: Any, shape: Any, where: str) -> str | None:
    """Where `value` first differs from what `HEADER` asks for."""
    if isinstance(shape, dict):
        if not isinstance(value, dict) or not shape.keys() <= value.keys():
            return f"{where} is not an object with {', '.join(shape)}"
        return next(filter(None, (unlike(value[key], shape[key], f"{where}.{key}") for key in shape)), None)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where} is not a list"
        return next(filter(None, (unlike(each, shape[0], f"{where}[]") for each in value)), None)
    if type(value) is not shape or (shape is int and value < 0):
        return f"{where} is {str(value)[:40]}"
    return None

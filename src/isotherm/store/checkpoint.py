"""A run's folder and the checkpoints in it: what the run is, as JSON, raw arrays, and in the first line a SHA-256.

    isotherm-checkpoint 2 <sha256 of what follows this line> <length of the header>
    {"arrays": [{"name": …, "dtype": …, "shape": […]}, …], …}<the arrays' bytes, one after the other>

When one is written is up to `run/recorder.py`. Two slots are written in turn, so that the previous checkpoint is there
until the next is complete. Nothing in a file is executed, no path is taken from it, and what it says of sizes is
compared with its own size before any is used.
"""

import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from isotherm.lib import files
from isotherm.lib.files import StoreError
from isotherm.lib.types import Json
from isotherm.lib.version import __version__
from isotherm.lib.warn import warn
from isotherm.store import arrays
from isotherm.store.identity import Header

HIDDEN = ".isotherm"  # what in the folder is not Zarr's
StorePath: TypeAlias = str | os.PathLike[str]
SAMPLER = "sampler."  # what the names of a sampler's arrays begin with
MAGIC = "isotherm-checkpoint 2"
OLDER = b"isotherm-checkpoint 1 "  # of isotherm 0.1.0
FIRST_LINE = re.compile(f"{MAGIC} ([0-9a-f]{{64}}) ([0-9]{{12}})\n".encode())
LINE_BYTES = len(MAGIC) + 1 + 64 + 1 + 12 + 1
FLOATING = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = {name: jnp.dtype(name) for name in ("bool", *INTEGERS, *FLOATING)}


def write(path: Path, header: Json, arrays: dict[str, np.ndarray]) -> str:
    """Put a file in place; return the SHA-256 in its first line."""
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    for name, array in contiguous.items():
        if array.dtype.name not in DTYPES:
            raise TypeError(f"{name} has dtype {array.dtype}, which a checkpoint cannot hold")
    described = [{"name": n, "dtype": a.dtype.name, "shape": list(a.shape)} for n, a in contiguous.items()]
    text = json.dumps({**header, "arrays": described}).encode()
    pieces = [memoryview(text), *(array.reshape(-1).view(np.uint8).data for array in contiguous.values())]
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    files.write_stored(path, [f"{MAGIC} {digest.hexdigest()} {len(text):012d}\n".encode(), *pieces])
    return digest.hexdigest()


def read(path: Path, sha256: str | None = None) -> tuple[Json, dict[str, np.ndarray]]:
    """Read header and arrays; StoreError unless every byte is as it was written, with this `sha256` if it is given."""
    with files.open_plain(path) as file:
        size, expected = read_first_line(path, file)
        if sha256 not in (None, expected):
            raise damaged(path, "it is not the file that the run was begun with")
        content = np.memmap(file, np.uint8, "r")[LINE_BYTES:]
    if hashlib.sha256(content.data).hexdigest() != expected:
        raise damaged(path, "its checksum is wrong")
    try:
        header = json.loads(content[:size].tobytes())
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise damaged(path, "its header is not an object")
    return header, slice_arrays(path, header.pop("arrays", None), content[size:])


def read_first_line(path: Path, file: BinaryIO) -> tuple[int, str]:
    """Return the length of the header, which the file is long enough for, and the checksum of what follows the line."""
    first = file.read(LINE_BYTES)
    if first.startswith(OLDER):
        raise StoreError(
            errno.EPROTONOSUPPORT,
            f"{path} was written by isotherm 0.1.0, and this is {__version__}, which cannot go on with such runs; "
            "their draws can still be read with xarray.open_datatree: go on with isotherm 0.1.0, or start again",
        )
    if len(first) < LINE_BYTES:
        raise damaged(path, "it is cut short")
    found = FIRST_LINE.fullmatch(first)
    if found is None:
        raise damaged(path, "it does not begin as a checkpoint of this version does")
    checksum, size = found[1].decode(), int(found[2])
    if size > os.fstat(file.fileno()).st_size - LINE_BYTES:
        raise damaged(path, "it is cut short")
    return size, checksum


def slice_arrays(path: Path, described: object, payload: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays as views of the file: nothing is allocated for what is not there."""
    arrays: dict[str, np.ndarray] = {}
    offset = 0
    for entry in described if isinstance(described, list) else [None]:
        match entry:
            case {"name": str(name), "dtype": str(dtype), "shape": list(shape), **rest} if (
                not rest and dtype in DTYPES and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape)
            ):
                end = offset + math.prod(shape) * DTYPES[dtype].itemsize
            case _:
                raise damaged(path, f"it describes an array as {str(entry)[:100]}")
        if end > payload.size:
            raise damaged(path, f"it is too short for {name} of shape {tuple(shape)}")
        arrays[name] = payload[offset:end].view(DTYPES[dtype]).reshape(shape)
        offset = end
    if offset != payload.size:
        raise damaged(path, f"it is {payload.size - offset} bytes longer than its arrays")
    return arrays


def damaged(path: Path, why: str) -> StoreError:
    return StoreError(errno.EILSEQ, f"{path} is damaged or not a checkpoint: {why}")


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
    with files.lock(path / HIDDEN / "lock"):
        if new:
            check_free(path)
        files.remove_partial_files(path)
        yield


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


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint that holds what it must, of sizes that fit together; nothing is allocated before this."""
    content, stored = read(path)
    try:
        header = Header.from_json(content)
    except (ValueError, TypeError) as error:
        raise damaged(path, str(error)) from error
    position, leaves = stored.get("carry.state.position"), header.layout["leaves"]
    if position is None or position.shape != (header.chains, sum(math.prod(leaf["shape"]) for leaf in leaves)):
        raise damaged(path, "the positions in it do not have the shape that its layout says")
    if any(leaf["dtype"] not in DTYPES for leaf in leaves):
        raise damaged(path, "its layout names an unknown dtype")
    return Checkpoint(header, stored, path)

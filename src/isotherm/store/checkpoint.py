"""The file of a checkpoint: a JSON header and raw arrays, and a SHA-256 over all of it in its first line.

    isotherm-checkpoint 2 <sha256 of what follows this line> <length of the header>
    {"arrays": [{"name": …, "dtype": …, "shape": […]}, …], …}<the arrays' bytes, one after the other>

When one is written is up to `recorder.py`. Two slots are written in turn, so that the previous checkpoint is there
until the next is complete. Nothing in a file is executed, no path is taken from it, and what it says of sizes is
compared with its own size before any is used.
"""

import errno
import hashlib
import json
import math
import os
import re
from pathlib import Path
from typing import Any, BinaryIO

import jax.numpy as jnp
import numpy as np

from isotherm.lib.types import Json
from isotherm.lib.version import __version__
from isotherm.store import disk
from isotherm.store.disk import StoreError

MAGIC = "isotherm-checkpoint 2"
OLDER = b"isotherm-checkpoint 1 "  # of isotherm 0.1.0
FIRST_LINE = re.compile(f"{MAGIC} ([0-9a-f]{{64}}) ([0-9]{{12}})\n".encode())
LINE_BYTES = len(MAGIC) + 1 + 64 + 1 + 12 + 1
FLOATING = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = {name: jnp.dtype(name) for name in ("bool", *INTEGERS, *FLOATING)}


def write(path: Path, header: Json, arrays: dict[str, np.ndarray]) -> str:
    """Put a file in place; the SHA-256 in its first line."""
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    for name, array in contiguous.items():
        if array.dtype.name not in DTYPES:
            raise TypeError(f"{name} has dtype {array.dtype}, which a checkpoint cannot hold")
    described = [
        {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)} for name, array in contiguous.items()
    ]
    text = json.dumps({**header, "arrays": described}).encode()
    pieces = [memoryview(text), *(array.reshape(-1).view(np.uint8).data for array in contiguous.values())]
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    disk.write(path, [f"{MAGIC} {digest.hexdigest()} {len(text):012d}\n".encode(), *pieces])
    return digest.hexdigest()


def read(path: Path, sha256: str | None = None) -> tuple[Json, dict[str, np.ndarray]]:
    """Header and arrays of a checkpoint whose every byte is as it was written; `StoreError` otherwise, and if it is not
    the one with this SHA-256."""
    with disk.open_plain(path) as file:
        size, expected = read_first_line(path, file)
        if sha256 not in (None, expected):
            raise damaged(path, "it is not the file that the run was begun with")
        content = np.memmap(file, np.uint8, "r")[LINE_BYTES:]
    if hashlib.sha256(content.data).hexdigest() != expected:
        raise damaged(path, "its checksum is wrong")
    header = parsed(path, content[:size].tobytes())
    return header, sliced(path, header.pop("arrays", None), content[size:])


def read_header(path: Path) -> Json:
    """The header alone, not verified: enough to say what a run is called."""
    with disk.open_plain(path) as file:
        return parsed(path, file.read(read_first_line(path, file)[0]))


def read_first_line(path: Path, file: BinaryIO) -> tuple[int, str]:
    """The length of the header, which the file is long enough for, and the checksum of all after this line."""
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


def parsed(path: Path, text: bytes) -> Json:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise damaged(path, "its header is not an object")
    return header


def sliced(path: Path, described: Any, payload: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays, as views of the file: nothing is allocated for what is not there."""
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

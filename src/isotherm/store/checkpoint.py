"""A checkpoint: one file with a JSON header and raw arrays, and a SHA-256 over all of it in its first line.

    isotherm-checkpoint 1 <sha256 of what follows this line> <length of the header>
    {"arrays": [{"name": …, "dtype": …, "shape": […]}, …], …}<the arrays' bytes, one after the other>

Two slots are written in turn, so that the previous checkpoint is there until the next is complete. Nothing in a file
is executed, no path is taken from it, and what it says of sizes is compared with its own size before any is used.
"""

import errno
import hashlib
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from isotherm.store import files
from isotherm.store.files import StoreError

MAGIC = "isotherm-checkpoint 1"
FIRST_LINE = len(MAGIC) + 1 + 64 + 1 + 12 + 1
FLOATING = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = {name: jnp.dtype(name) for name in ("bool", *INTEGERS, *FLOATING)}


class Checkpoint(NamedTuple):
    """What was written, and where it was read."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    path: Path


def write(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
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
    files.write(path, [f"{MAGIC} {digest.hexdigest()} {len(text):012d}\n".encode(), *pieces])


def read(path: Path) -> Checkpoint:
    """A checkpoint whose every byte is as it was written; `StoreError` otherwise."""
    with files.open_plain(path) as file:
        first = file.read(FIRST_LINE)
        if len(first) < FIRST_LINE:
            raise damaged(path, "it is cut short")
        content = np.memmap(file, np.uint8, "r")
    size, expected = header_size(path, first), first[len(MAGIC) + 1 : len(MAGIC) + 65].decode("ascii", "replace")
    if size > content.size - FIRST_LINE:
        raise damaged(path, "it is cut short")
    if hashlib.sha256(content[FIRST_LINE:].data).hexdigest() != expected:
        raise damaged(path, "its checksum is wrong")
    header = parsed(path, content[FIRST_LINE : FIRST_LINE + size].tobytes())
    return Checkpoint(header, sliced(path, header.pop("arrays", None), content[FIRST_LINE + size :]), path)


def header_size(path: Path, first: bytes) -> int:
    length = first[-13:-1]
    if not first.startswith(MAGIC.encode() + b" ") or first[-1:] != b"\n" or not length.isdigit():
        raise damaged(path, "it does not begin as a checkpoint of this version does")
    return int(length)


def parsed(path: Path, text: bytes) -> dict[str, Any]:
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
        name, dtype, shape = entry_of(path, entry)
        end = offset + math.prod(shape) * dtype.itemsize
        if end > payload.size:
            raise damaged(path, f"it is too short for {name} of shape {shape}")
        arrays[name] = payload[offset:end].view(dtype).reshape(shape)
        offset = end
    if offset != payload.size:
        raise damaged(path, f"it is {payload.size - offset} bytes longer than its arrays")
    return arrays


def entry_of(path: Path, entry: Any) -> tuple[str, np.dtype, tuple[int, ...]]:
    match entry:
        case {"name": str(name), "dtype": str(dtype), "shape": list(shape), **rest} if (
            not rest and dtype in DTYPES and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape)
        ):
            return name, DTYPES[dtype], tuple(shape)
    raise damaged(path, f"it describes an array as {str(entry)[:100]}")


def damaged(path: Path, why: str) -> StoreError:
    return StoreError(errno.EILSEQ, f"{path} is damaged or not a checkpoint: {why}")

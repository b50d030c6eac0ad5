"""The file of a checkpoint: what the run is, as JSON, raw arrays, and a SHA-256 over all of it in its first line.

    isotherm-checkpoint 2 <sha256 of what follows this line> <length of the header>
    {"arrays": [{"name": …, "dtype": …, "shape": […]}, …], …}<the arrays' bytes, one after the other>

When one is written is up to `run/recorder.py`. Two slots are written in turn, so that the previous checkpoint is there
until the next is complete. Nothing in a file is executed, no path is taken from it, and what it says of sizes is
compared with its own size before any is used.
"""

import dataclasses
import errno
import hashlib
import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, get_origin

import jax.numpy as jnp
import numpy as np

from isotherm.data.batches import Batches
from isotherm.lib import files
from isotherm.lib.files import StoreError
from isotherm.lib.types import Json
from isotherm.lib.version import __version__

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
    described = [
        {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)} for name, array in contiguous.items()
    ]
    text = json.dumps({**header, "arrays": described}).encode()
    pieces = [memoryview(text), *(array.reshape(-1).view(np.uint8).data for array in contiguous.values())]
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    files.write_stored(path, [f"{MAGIC} {digest.hexdigest()} {len(text):012d}\n".encode(), *pieces])
    return digest.hexdigest()


def read(path: Path, sha256: str | None = None) -> tuple[Json, dict[str, np.ndarray]]:
    """Read header and arrays; `StoreError` unless every byte is as it was written and, if `sha256` is given, the file
    is the one that has it."""
    with files.open_plain(path) as file:
        size, expected = read_first_line(path, file)
        if sha256 not in (None, expected):
            raise damaged(path, "it is not the file that the run was begun with")
        content = np.memmap(file, np.uint8, "r")[LINE_BYTES:]
    if hashlib.sha256(content.data).hexdigest() != expected:
        raise damaged(path, "its checksum is wrong")
    header = parse_header(path, content[:size].tobytes())
    return header, slice_arrays(path, header.pop("arrays", None), content[size:])


def read_header(path: Path) -> Json:
    """Read the header alone, not verified: enough to say what a run is called."""
    with files.open_plain(path) as file:
        return parse_header(path, file.read(read_first_line(path, file)[0]))


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


def parse_header(path: Path, text: bytes) -> Json:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise damaged(path, "its header is not an object")
    return header


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


@dataclass(frozen=True)
class Header:
    """What a run is, in values that JSON has (`identity` makes and compares most of them), and where it stands."""

    sampler: Json
    batches: Batches
    plan: Json  # steps, burn_in and thin
    chains: int
    seed: int
    name: str | None
    layout: Json
    data: list[Json]
    model: Json
    numerics: Json
    versions: Json
    chunk: int  # how many draws a chunk of an array on disk holds
    constants: str  # SHA-256 of the file of constants (anchor.py), if there is one
    notes: Json  # for the attributes of the results
    goal: Json  # ess, most_steps and seconds, of a run that goes on until it is met
    serial: int = -1  # of the checkpoint; before the first, −1
    step: int = 0
    seconds: float = 0.0
    draws: int = 0
    digests: dict[str, str] = dataclasses.field(default_factory=dict)  # SHA-256 of each whole chunk, by file

    def to_json(self) -> Json:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Json) -> "Header":
        """Check JSON that is read with suspicion; ValueError says where it is no header, or its sizes do not fit."""
        if fault := unlike(content, SHAPE, "header") or (
            content["goal"] and unlike(content["goal"], GOAL, "header.goal")
        ):
            raise ValueError(fault)
        if not (content["chunk"] and content["plan"]["thin"] and content["batches"]["size"]):
            raise ValueError("a size in it is zero")
        known = {name: content[name] for name in SHAPE}
        known["plan"] = {name: content["plan"][name] for name in PLAN}
        known["goal"] = {name: content["goal"][name] for name in GOAL if content["goal"]}
        known["batches"] = Batches(*(content["batches"][name] for name in SHAPE["batches"]))
        return cls(**known)


# What the JSON must hold: a type or one of several, a list of one kind, or an object with at least these entries.
# Integers are ≥ 0. Of most fields the annotation says it.
PLAN = {"steps": int, "burn_in": int, "thin": int}
GOAL = {"ess": (int, float), "most_steps": int, "seconds": (int, float, type(None))}
SHAPE: Json = {field.name: get_origin(field.type) or field.type for field in dataclasses.fields(Header)} | {
    "name": (str, type(None)),
    "plan": PLAN,
    "batches": Batches.__annotations__,
    "sampler": {"name": str, "settings": dict},
    "layout": {"leaves": [{"name": str, "shape": [int], "dtype": str}]},
    "data": [{"name": str, "shape": [int], "dtype": str, "sha256": str}],
    "model": {"log_likelihood": [[float]], "log_prior": [float]},
}


def unlike(value: object, shape: object, where: str) -> str | None:
    """Return where `value` first differs from what `SHAPE` asks for, if anywhere."""
    if isinstance(shape, dict):
        if not isinstance(value, dict) or not shape.keys() <= value.keys():
            return f"{where} is not an object with {', '.join(shape)}"
        return next(filter(None, (unlike(value[key], shape[key], f"{where}.{key}") for key in shape)), None)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where} is not a list"
        return next(filter(None, (unlike(each, shape[0], f"{where}[]") for each in value)), None)
    kinds = shape if isinstance(shape, tuple) else (shape,)
    if type(value) not in kinds or (isinstance(value, int) and value < 0):
        return f"{where} is {str(value)[:40]}"
    return None

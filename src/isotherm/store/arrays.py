"""Labelled results as Zarr (version 3) on disk, growing along `draw` in chunks of a fixed number of draws.

Zarr encodes every chunk and says what belongs in its metadata; the files are put in place here, atomically. Readers
go by the root's consolidated metadata: one file, replaced last, so what they see is always a whole checkpoint.
"""

import json
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isotherm.lib import files
from isotherm.lib.types import Json, Results

if TYPE_CHECKING:
    import xarray
    from zarr.core.buffer import Buffer

DRAW = "draw"
RESERVED = {".", "..", "zarr.json"}


def write_chunk(root: Path, tree: Results, number: int, draws: int) -> dict[str, str]:
    """Write chunk `number`, of up to `draws` draws, of every array that grows; return the SHA-256 of each file."""
    digests = {}
    for path, variable in variables(tree):
        if DRAW in variable.dims:
            _, encoded = encode(variable, draws)
            file = chunk_file(path, variable.dims, number)
            digests[file] = files.write_stored(root / file, [encoded])
    return digests


def write_rest(root: Path, tree: Results, number: int, chunk: int) -> None:
    """Write the metadata and what is in no complete chunk: `tree` holds the draws after chunk `number`, if any."""
    metadata: Json = {}
    for path, variable in variables(tree):
        description, encoded = encode(variable, chunk)
        if DRAW in variable.dims:
            description["shape"][variable.dims.index(DRAW)] += number * chunk
        if variable.size:
            files.write_stored(root / chunk_file(path, variable.dims, number), [encoded], durable=False)
        metadata[path] = description
    metadata |= {group.path.strip("/"): group_metadata(group.attrs) for group in tree.subtree if group is not tree}
    for path, description in metadata.items():
        files.write_stored(root / path / "zarr.json", [json.dumps(description).encode()], durable=False)
    consolidated = {"kind": "inline", "must_understand": False, "metadata": metadata}
    description = group_metadata(tree.attrs) | {"consolidated_metadata": consolidated}
    files.write_stored(root / "zarr.json", [json.dumps(description, indent=1).encode()])


def open_results(root: Path) -> Results:
    """Open the results in a folder; arrays are read when they are used."""
    import xarray

    return xarray.open_datatree(root, engine="zarr", chunks=None, consolidated=True)


def variables(tree: Results) -> Iterator[tuple[str, "xarray.Variable"]]:
    """Yield every array of a tree with its path, which stays inside the folder."""
    for group in tree.subtree:
        for name, variable in group.to_dataset(inherit=False).variables.items():
            check_name(str(name))
            yield f"{group.path.strip('/')}/{name}", variable


def is_name(name: str) -> bool:
    """Return whether this can be the name of an array, and so of a folder."""
    plain = bool(name) and name.isprintable() and not set(name) & set("/\\") and not name.startswith("__")
    return plain and name not in RESERVED and len(name.encode()) <= 200


def check_name(name: str) -> None:
    if not is_name(name):
        raise ValueError(f"init has a parameter named {name!r}, which cannot be the name of a stored array; rename it")


def chunk_file(path: str, dims: tuple[Hashable, ...], number: int) -> str:
    return "/".join([path, "c", *(str(number) if dim == DRAW else "0" for dim in dims)])


def encode(variable: "xarray.Variable", draws: int) -> tuple[Json, bytes]:
    """Return Zarr's metadata for an array and its one chunk, whose CRC32C at the end shows a flipped byte."""
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec
    from zarr.storage import MemoryStore

    values = np.asarray(variable.values)
    if values.dtype.name == "bfloat16":  # Zarr has none; float32 holds the same numbers
        values = values.astype(np.float32)
    memory: dict[str, Buffer] = {}
    array = zarr.create_array(
        MemoryStore(memory),
        shape=values.shape,
        chunks=tuple(draws if dim == DRAW else max(1, n) for dim, n in zip(variable.dims, values.shape, strict=True)),
        dtype=values.dtype,
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
        fill_value=np.nan if values.dtype.kind == "f" else 0,
        dimension_names=[str(dim) for dim in variable.dims],
        attributes=variable.attrs,
        config={"write_empty_chunks": True},
    )
    array[...] = values
    encoded = memory["/".join(["c", *["0"] * values.ndim])].to_bytes() if values.size else b""
    return json.loads(memory["zarr.json"].to_bytes()), encoded


def group_metadata(attributes: Mapping[Hashable, object]) -> Json:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}

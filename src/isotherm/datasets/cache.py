"""Decoded arrays, kept so that no file is decompressed and decoded twice.

An entry is one .npz in the user's cache, named after the SHA-256 of the files as they are stored and of what was made
from them. It is written only after the files' content was verified, so it vouches for any files of the same bytes.
A damaged entry is made again, and a cache that cannot be written is done without.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from isotherm.datasets import files
from isotherm.datasets.source import Source, Split

DECODERS = 1  # raise it when a decoder or a projection changes what it makes


def cached(source: Source, paths: Iterable[Path], label: str, make: Callable[[], Split]) -> Split:
    """What `make()` gives for these files, from the cache if it is there."""
    words = f"{DECODERS} {source.name} {label} {files.stored_digest(paths)}"
    key = hashlib.sha256(words.encode()).hexdigest()[:32]
    entry = files.user_cache() / "arrays" / f"{source.name}-{key}.npz"
    split = _load(entry)
    if split is None:
        split = make()
        _store(entry, split)
    return split


def _load(entry: Path) -> Split | None:
    try:
        with entry.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            # the zip's CRC-32 is checked on the way
            return Split(*({key: archive[f"{part}_{key}"] for key in ("x", "y")} for part in Split._fields))
    except Exception:  # whatever is wrong with an entry, it can be made again
        return None


def _store(entry: Path, split: Split) -> None:
    arrays = {f"{part}_{key}": a for part, data in split._asdict().items() for key, a in data.items()}
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=entry.stem, suffix=".part", dir=entry.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                np.savez(stream, allow_pickle=False, **arrays)
            os.replace(name, entry)
        finally:
            Path(name).unlink(missing_ok=True)

"""Decoded arrays, kept so that no file is decompressed and decoded twice.

An entry is one .npz file in the user's cache. Its name is a hash of the stored bytes of the data files and of what was
made from them, and it is written only after their content was verified, so it stands for any files of the same bytes.
A damaged entry is made again. Where the cache cannot be written, arrays are made each time.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from isotherm.lib import files
from isotherm.paper.datasets import lookup, verify
from isotherm.paper.datasets.source import Source, Split

DECODERS = 1  # part of every entry's name: raise it when a decoder or a projection gives other arrays than before


def cached(source: Source, paths: Iterable[Path], label: str, make: Callable[[], Split]) -> Split:
    """What `make()` gives for these files, from the cache if it is there; `label` says what is made of them."""
    words = f"{DECODERS} {source.name} {label} {verify.stored_digest(paths)}"
    key = hashlib.sha256(words.encode()).hexdigest()[:32]
    entry = lookup.user_cache() / "arrays" / f"{source.name}-{key}.npz"
    split = _load(entry)
    if split is None:
        split = make()
        arrays = {f"{part}_{key}": a for part, data in split._asdict().items() for key, a in data.items()}
        with suppress(OSError), files.replacing(entry, durable=False) as partial, partial.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
    return split


def _load(entry: Path) -> Split | None:
    try:
        with entry.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            # the zip's CRC-32 is checked on the way
            return Split(*({key: archive[f"{part}_{key}"] for key in ("x", "y")} for part in Split._fields))
    except Exception:  # whatever is wrong with an entry, it can be made again
        return None

"""Decoded arrays, kept so that no file is decompressed and decoded twice.

An entry is one .npz file in the user's cache. Its name is a hash of the stored bytes of the data files and of what was
made from them, and it is written only after their content was verified, so it stands for any files of the same bytes.
A damaged entry is made again. Where the cache cannot be written, arrays are made each time.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from isotherm.lib import files
from isotherm.paper.datasets import lookup
from isotherm.paper.datasets.source import Source, Split

DECODERS = 1  # part of every entry's name: raise it when a decoder or a projection gives other arrays than before


def cached(
    source: Source, data_dir: lookup.DataDir | None, label: str, make: Callable[[dict[str, Path]], Split]
) -> Split:
    """Return what `make(paths of the files)` gives, from the cache if it is there; `label` says what is made."""
    located = lookup.locate(source, data_dir)
    stored = hashlib.sha256()  # over the files as they are, compressed or not
    for path in dict.fromkeys(located.values()):
        with path.open("rb") as stream:
            stored.update(hashlib.file_digest(stream, "sha256").digest())
    words = f"{DECODERS} {source.name} {label} {stored.hexdigest()}"
    entry = lookup.user_cache() / "arrays" / f"{source.name}-{hashlib.sha256(words.encode()).hexdigest()[:32]}.npz"
    with suppress(Exception), entry.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        # The zip's CRC-32 is checked on the way; whatever is wrong with an entry, it can be made again.
        return Split(*({key: archive[f"{part}_{key}"] for key in ("x", "y")} for part in Split._fields))
    split = make(located)
    arrays = {f"{part}_{key}": a for part, data in split._asdict().items() for key, a in data.items()}
    with suppress(OSError), files.replacing(entry, durable=False) as partial, partial.open("wb") as new:
        np.savez(new, allow_pickle=False, **arrays)
    return split

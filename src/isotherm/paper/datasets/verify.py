"""What data files hold: decompressed, and verified against the checksums their source knows.

A file with other content is refused by name, with both checksums, and never overwritten.
"""

import bz2
import gzip
import hashlib
import lzma
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from isotherm.paper.datasets.source import File, Source, WrongContentError

# Told by the first bytes, not by the name: browsers decompress what they download but keep the suffix.
OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open, b"BZh": bz2.open}
DECOMPRESSION_FAULTS = (EOFError, OSError, zlib.error, lzma.LZMAError)
Part = tuple[bytes, str | None]  # a content, and the fault that stopped the reading, if any


def read(source: Source, located: dict[str, Path]) -> dict[str, bytes]:
    """Return the verified content of the located files, by name."""
    contents: dict[str, bytes] = {}
    for path in dict.fromkeys(located.values()):
        files = [file for file in source.files if located.get(file.name) == path]
        if source.archive and path.name.startswith(source.archive):
            parts = _read_archive(path, source.folder, [file.name for file in files])
        else:
            parts = {file.name: _read_plain(path) for file in files}
        contents |= {file.name: _verified(source, file, path, *parts[file.name]) for file in files}
    return contents


def _read_plain(path: Path) -> Part:
    with path.open("rb") as stream:
        head = stream.read(max(map(len, OPENERS)))
        stream.seek(0)
        opener = next((opener for magic, opener in OPENERS.items() if head.startswith(magic)), None)
        return _drain(opener(stream, "rb") if opener else stream)


def _drain(stream: IO[bytes]) -> Part:
    try:
        return stream.read(), None
    except EOFError:
        return b"", "it is truncated, its compressed stream ends early"
    except DECOMPRESSION_FAULTS as fault:
        return b"", f"it is damaged, its compressed stream cannot be read ({fault})"


def _read_archive(path: Path, folder: str, names: list[str]) -> dict[str, Part]:
    """Read the named members, in one pass and in memory: nothing is unpacked to disk, nothing else is read."""
    wanted = {f"{folder}/{name}": name for name in names}
    parts: dict[str, Part] = dict.fromkeys(names, (b"", "it does not hold that file"))
    try:
        with tarfile.open(path, "r|*") as members:
            for member in members:
                name = wanted.get(member.name.removeprefix("./"))
                stream = members.extractfile(member) if name is not None and member.isreg() else None
                if name is not None and stream is not None:
                    parts[name] = _drain(stream)
    except (tarfile.TarError, *DECOMPRESSION_FAULTS) as fault:
        unread = (b"", f"it is truncated or damaged, the archive cannot be read to its end ({fault})")
        return {name: part if part[1] is None else unread for name, part in parts.items()}
    return parts


def _verified(source: Source, file: File, path: Path, content: bytes, fault: str | None) -> bytes:
    """Return `content` if it is that of `file`; else raise an error with both checksums."""
    checked = b"".join(line.rstrip() + b"\n" for line in content.splitlines()) if source.text else content
    got = hashlib.sha256(checked).hexdigest() if fault is None else "unknown"
    if got == file.sha256 or (fault is None and file.sha256 is None):
        return content
    why = fault or _difference(source, file, checked, got)
    finding = f"{why}; the SHA-256 of its content is {got}, expected {file.sha256 or 'unknown'}"
    urls = " or ".join(source.urls(file))
    raise WrongContentError(
        finding,
        f"{path} is not {file.name}: {finding}. It is left as it is: move it away and fetch it again from {urls}",
    )


def _difference(source: Source, file: File, content: bytes, got: str) -> str:
    twin = next((other.name for other in source.files if other.sha256 == got), None)
    if twin is not None:
        return f"it is another file, {twin}"
    if file.size is None or len(content) == file.size:
        return "it is damaged, of the right length but with other content"
    if len(content) < file.size:
        return f"it is truncated or another file, {len(content):,} bytes of {file.size:,}"
    return f"it is another file, {len(content):,} bytes instead of {file.size:,}"

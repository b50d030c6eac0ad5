"""What data files hold: decompressed, and verified against the checksums their source knows.

A file with other content is refused by name, with both checksums, and never overwritten.
"""

import bz2
import gzip
import hashlib
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from isotherm.paper.datasets.source import Archive, File, Source, WrongContentError

# Told by the first bytes, not by the name: browsers decompress what they download but keep the suffix.
OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open, b"BZh": bz2.open}
DECOMPRESSION_FAULTS = (EOFError, OSError, zlib.error, lzma.LZMAError)
CHUNK = 1 << 20  # bytes a read; of a damaged file, the chunks before the damage are kept


def read(source: Source, located: dict[str, Path]) -> dict[str, bytes]:
    """The verified content of the located files, by name."""
    files = {file.name: file for file in source.files}
    contents: dict[str, bytes] = {}
    for path in dict.fromkeys(located.values()):
        names = [name for name, where in located.items() if where == path]
        if source.archive is not None and path.name.startswith(source.archive.name):
            parts = _read_archive(path, source.archive, names)
        else:
            parts = {name: _read_plain(path) for name in names}
        for name in names:
            content, fault = parts.get(name, (b"", "it does not hold that file"))
            contents[name] = _verified(source, files[name], path, content, fault)
    return contents


def stored_digest(paths: Iterable[Path]) -> str:
    """SHA-256 over the files as they are stored, compressed or not: equal only if every byte is."""
    digest = hashlib.sha256()
    for path in dict.fromkeys(paths):
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _read_plain(path: Path) -> tuple[bytes, str | None]:
    """The content as far as it could be read, and the fault that stopped the reading, if any."""
    with path.open("rb") as stream:
        head = stream.read(max(map(len, OPENERS)))
        stream.seek(0)
        opener = next((opener for magic, opener in OPENERS.items() if head.startswith(magic)), None)
        return _drain(opener(stream, "rb") if opener else stream)


def _drain(stream: IO[bytes]) -> tuple[bytes, str | None]:
    chunks = []
    try:
        while chunk := stream.read(CHUNK):
            chunks.append(chunk)
    except EOFError:
        return b"".join(chunks), "it is truncated, its compressed stream ends early"
    except DECOMPRESSION_FAULTS as fault:
        return b"".join(chunks), f"it is damaged, its compressed stream cannot be read ({fault})"
    return b"".join(chunks), None


def _read_archive(path: Path, archive: Archive, names: list[str]) -> dict[str, tuple[bytes, str | None]]:
    """The named members, in one pass and in memory: nothing is unpacked to disk, nothing else is looked at."""
    wanted = {f"{archive.folder}/{name}": name for name in names}
    parts: dict[str, tuple[bytes, str | None]] = {}
    try:
        with tarfile.open(path, "r|*") as members:
            for member in members:
                name = wanted.get(member.name.removeprefix("./"))
                stream = members.extractfile(member) if name is not None and member.isreg() else None
                if name is not None and stream is not None:
                    parts[name] = _drain(stream)
    except (tarfile.TarError, *DECOMPRESSION_FAULTS) as fault:
        missing = (b"", f"it is truncated or damaged, the archive cannot be read to its end ({fault})")
        return dict.fromkeys(names, missing) | parts
    return parts


def _verified(source: Source, file: File, path: Path, content: bytes, fault: str | None) -> bytes:
    """`content` if it is that of `file`; else an error with both checksums."""
    checked = b"".join(line.rstrip() + b"\n" for line in content.splitlines()) if source.text else content
    got = hashlib.sha256(checked).hexdigest()
    if fault is None and file.sha256 in {None, got}:
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

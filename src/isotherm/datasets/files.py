"""Data files on disk: where they are looked for, how they are decompressed and verified.

Look-up order: the `data_dir` argument, `$ISOTHERM_DATA`, the user's cache; only then is anything downloaded. In
each place `PLACE/mnist/file` and `PLACE/file` are found, plain or as .gz, .xz or .bz2. A file whose content is not
what it must be is refused by name and never overwritten.
"""

import bz2
import gzip
import hashlib
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from isotherm.datasets import download
from isotherm.datasets.source import Archive, DatasetError, File, Source, WrongContentError

VARIABLE = "ISOTHERM_DATA"
SUFFIXES = ("", ".gz", ".xz", ".bz2")
# Told by the first bytes, not by the name: browsers decompress on the way and keep the suffix.
OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open, b"BZh": bz2.open}
DECOMPRESSION_FAULTS = (EOFError, OSError, zlib.error, lzma.LZMAError)
CHUNK = 1 << 20

Folder = str | os.PathLike[str]


def user_cache() -> Path:
    """The folder of this user where downloads and decoded arrays are kept."""
    import pooch

    return Path(pooch.os_cache("isotherm"))


def places(data_dir: Folder | None) -> list[Path]:
    """The folders to look in, in order; a named folder that is not there is an error, not an empty one."""
    named = [("data_dir", data_dir), (f"${VARIABLE}", os.environ.get(VARIABLE) or None)]
    found = []
    for name, value in named:
        if value is not None:
            folder = Path(value).expanduser()
            if not folder.is_dir():
                raise DatasetError(f"{name} must name a folder, got {str(value)!r}, which is none")
            found.append(folder)
    return [*found, user_cache()]


def find(source: Source, file: File, data_dir: Folder | None = None) -> Path | None:
    """The first place that has `file`, by itself or in the archive; None if there is none."""
    for place in places(data_dir):
        for path in _candidates(source, file, place):
            if path.is_file():
                return path
    return None


def _candidates(source: Source, file: File, place: Path) -> Iterator[Path]:
    folders = [place / source.name, place]
    if source.archive:
        folders += [folder / source.archive.folder for folder in folders]
    for folder in folders:
        yield from (folder / (file.name + suffix) for suffix in SUFFIXES)
    if source.archive:
        yield from (folder / source.archive.name for folder in folders)


def locate(source: Source, data_dir: Folder | None = None, into: Path | None = None) -> dict[str, Path]:
    """The path of every file of `source`; what is nowhere is downloaded `into` a place, the user's cache if None."""
    located: dict[str, Path] = {}
    for file in source.files:
        path = find(source, file, data_dir)
        if path is None:
            advise = places(data_dir)[0] / source.name
            path = _obtain(source, file, (into or user_cache()) / source.name, advise)
        located[file.name] = path
    return located


def _obtain(source: Source, file: File, folder: Path, advise: Path) -> Path:
    """Download `file` into `folder`; it appears there only when its content was verified."""

    def verify(path: Path) -> None:
        wanted = source.files if source.archive else (file,)
        read(source, {f.name: path for f in wanted})

    return download.download(source, file, folder, verify, advise)


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
    """SHA-256 over the files as they are stored, wrappers and all: equal only if every byte is."""
    digest = hashlib.sha256()
    for path in dict.fromkeys(paths):
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _read_plain(path: Path) -> tuple[bytes, str | None]:
    """Content, and what went wrong on the way: what could be read is kept, so that it can be described."""
    with path.open("rb") as stream:
        return _drain(_decompressing(stream))


def _decompressing(stream: IO[bytes]) -> IO[bytes]:
    head = stream.read(6)
    stream.seek(0)
    for magic, opener in OPENERS.items():
        if head.startswith(magic):
            return cast(IO[bytes], opener(stream, "rb"))
    return stream


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

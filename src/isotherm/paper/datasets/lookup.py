"""Find data files in some folders, in order; download those that none of them has, and verify them before they get
their names; list all data sets, fetch one by name, check what is on disk.

The folders are the `data_dir` argument (`--data` on the command line), `$ISOTHERM_DATA` and the user's cache. In each
of them `FOLDER/mnist/file` and `FOLDER/file` are found, plain or as .gz, .xz or .bz2.
"""

import os
from pathlib import Path
from typing import NamedTuple

from isotherm.lib import arguments, files
from isotherm.lib.optional import extra
from isotherm.lib.progress import progress_bar
from isotherm.lib.types import Json
from isotherm.paper.datasets import verify
from isotherm.paper.datasets.source import SOURCES, DatasetError, File, Source, WrongContentError

VARIABLE = "ISOTHERM_DATA"
SUFFIXES = ("", ".gz", ".xz", ".bz2")
TIMEOUT = 30  # seconds without an answer, after which the next address is tried
CHUNK = 1 << 18  # bytes between two moves of the progress bar

DataDir = str | os.PathLike[str]


def user_cache() -> Path:
    """Return the folder of this user where downloads and decoded arrays are kept."""
    with extra("paper", "the cache of data sets"):
        from platformdirs import user_cache_dir

    return Path(user_cache_dir("isotherm", appauthor=False))


def folders(data_dir: DataDir | None) -> list[Path]:
    """Return the folders to look in, in order; a folder that was named but does not exist is an error."""
    found = []
    for name, value in (("data_dir (--data)", data_dir), (f"${VARIABLE}", os.environ.get(VARIABLE) or None)):
        if value is not None:
            folder = Path(value).expanduser()
            if not folder.is_dir():
                raise DatasetError(f"{name} must be the folder that holds the data sets, got {str(value)!r}: no folder")
            found.append(folder)
    return [*found, user_cache()]


def find(source: Source, file: File, data_dir: DataDir | None = None) -> Path | None:
    """Return the first path at which `file` is, by itself or in its archive; None if it is nowhere."""
    for folder in folders(data_dir):
        inside = [folder / source.name, folder]
        packed = [place / source.archive for place in inside] if source.archive else []
        if source.archive:
            inside += [place / source.folder for place in inside]
        paths = [place / (file.name + suffix) for place in inside for suffix in SUFFIXES]
        found = next((path for path in (*paths, *packed) if path.is_file()), None)
        if found is not None:
            return found
    return None


def locate(source: Source, data_dir: DataDir | None = None, into: DataDir | None = None) -> dict[str, Path]:
    """Return the path of each file, by name; download missing files `into` a folder or the user's cache."""
    located: dict[str, Path] = {}
    for file in source.files:
        path = find(source, file, data_dir)
        if path is None:
            folder, by_hand = Path(into or user_cache()).expanduser(), folders(data_dir)[0]
            path = download(source, file, folder / source.name, by_hand / source.name)
        located[file.name] = path
    return located


def download(source: Source, file: File, folder: Path, by_hand: Path) -> Path:
    """Fetch `file`, or the archive it comes in, into `folder` from the first address that gives the right content; if
    none does, the error says that the file can be put into the folder `by_hand`."""
    reasons = []
    for url in source.urls(file):
        path = folder / url.rsplit("/", 1)[-1]
        try:
            with files.replacing(path) as partial:
                _fetch(url, partial)
                verify.read(source, {f.name: partial for f in (source.files if source.archive else (file,))})
            return path
        except WrongContentError as wrong:
            reasons.append(f"{url} (not that file: {wrong.finding})")
        except (OSError, ValueError) as fault:
            reasons.append(f"{url} ({getattr(fault, 'strerror', None) or type(fault).__name__})")
    wanted = source.archive or file.name
    raise DatasetError(
        f"{source.name}: {wanted} could not be downloaded from {' or '.join(reasons)}: fetch it elsewhere and put it, "
        f"plain or compressed, into {by_hand}, or give the folder that has it (data_dir=, --data or $ISOTHERM_DATA)"
    )


def _fetch(url: str, path: Path) -> None:
    """Write what the address holds to `path`, with a progress bar on a terminal."""
    with extra("paper", "a download"):
        import requests
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn

    with (
        requests.get(url, stream=True, timeout=TIMEOUT) as response,
        progress_bar(True, "{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn()) as progress,
        path.open("wb") as file,
    ):
        response.raise_for_status()
        size = int(response.headers.get("content-length", 0))
        bar = progress.add_task(url.rsplit("/", 1)[-1], total=size or None)
        for piece in response.iter_content(CHUNK):
            progress.advance(bar, file.write(piece))


class Status(NamedTuple):
    """One file of one data set: `status` is "ok", "present, no checksum known", "missing", or why it is refused."""

    name: str
    file: str
    status: str


def catalogue() -> list[Json]:
    """Describe every data set: name, title, licence, citation, homepage, its files and their addresses."""
    return [
        {name: getattr(source, name) for name in ("name", "title", "licence", "citation", "homepage")}
        | {
            "files": [file.name for file in source.files],
            "addresses": list(dict.fromkeys(url for file in source.files for url in source.urls(file))),
        }
        for source in SOURCES.values()
    ]


def fetch(name: str, data_dir: DataDir | None = None) -> list[Path]:
    """Return the paths of all files of a data set, after making sure that they are there and have the right content.

    Missing files are downloaded into `data_dir/name`, or into the user's cache if no folder is given.
    """
    source = SOURCES[arguments.choice("name", name, SOURCES)]
    if data_dir is not None:
        Path(data_dir).expanduser().mkdir(parents=True, exist_ok=True)
    located = locate(source, data_dir, into=data_dir)
    verify.read(source, located)
    return list(dict.fromkeys(located.values()))


def check(data_dir: DataDir | None = None) -> list[Status]:
    """Return the state of every file of every data set: read what is there, download nothing."""
    every = [(source, file) for source in SOURCES.values() for file in source.files]
    return [Status(source.name, file.name, _status(source, file, data_dir)) for source, file in every]


def _status(source: Source, file: File, data_dir: DataDir | None) -> str:
    path = find(source, file, data_dir)
    if path is None:
        return "missing"
    try:
        verify.read(source, {file.name: path})
    except DatasetError as refused:
        return str(refused)
    return "ok" if file.sha256 else "present, no checksum known"

"""Where data files are: looked for in some folders, in order, and downloaded if none of them has the file.

The folders are the `data_dir` argument (`--data` on the command line), `$ISOTHERM_DATA` and the user's cache. In each
of them `FOLDER/mnist/file` and `FOLDER/file` are found, plain or as .gz, .xz or .bz2.
"""

import os
from pathlib import Path

from isotherm.lib.optional import extra
from isotherm.paper.datasets import download
from isotherm.paper.datasets.source import DatasetError, File, Source

VARIABLE = "ISOTHERM_DATA"
SUFFIXES = ("", ".gz", ".xz", ".bz2")

DataDir = str | os.PathLike[str]


def user_cache() -> Path:
    """The folder of this user where downloads and decoded arrays are kept."""
    with extra("paper", "the cache of data sets"):
        import pooch

    return Path(pooch.os_cache("isotherm"))


def folders(data_dir: DataDir | None) -> list[Path]:
    """The folders to look in, in order; a folder that was named but does not exist is an error."""
    found = []
    for name, value in (("data_dir (--data)", data_dir), (f"${VARIABLE}", os.environ.get(VARIABLE) or None)):
        if value is not None:
            folder = Path(value).expanduser()
            if not folder.is_dir():
                raise DatasetError(f"{name} must be the folder that holds the data sets, got {str(value)!r}: no folder")
            found.append(folder)
    return [*found, user_cache()]


def find(source: Source, file: File, data_dir: DataDir | None = None) -> Path | None:
    """The first path at which `file` is, by itself or in its archive; None if it is nowhere."""
    for folder in folders(data_dir):
        inside = [folder / source.name, folder]
        if source.archive:
            inside += [place / source.archive.folder for place in inside]
        paths = [place / (file.name + suffix) for place in inside for suffix in SUFFIXES]
        if source.archive:
            paths += [place / source.archive.name for place in inside]
        for path in paths:
            if path.is_file():
                return path
    return None


def locate(source: Source, data_dir: DataDir | None = None, into: DataDir | None = None) -> dict[str, Path]:
    """The path of each file of `source`, by name; missing files are downloaded `into` a folder or the user's cache."""
    located: dict[str, Path] = {}
    for file in source.files:
        path = find(source, file, data_dir)
        if path is None:
            folder, by_hand = Path(into or user_cache()).expanduser(), folders(data_dir)[0]
            path = download.download(source, file, folder / source.name, by_hand / source.name)
        located[file.name] = path
    return located

"""All data sets by name: list them, fetch one, check what is on disk."""

from pathlib import Path
from typing import NamedTuple

from isotherm.lib import arguments
from isotherm.lib.types import Json
from isotherm.paper.datasets import lookup, verify
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import SOURCES, DatasetError, File, Source


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
    located = lookup.locate(source, data_dir, into=data_dir)
    verify.read(source, located)
    return list(dict.fromkeys(located.values()))


def check(data_dir: DataDir | None = None) -> list[Status]:
    """Return the state of every file of every data set: read what is there, download nothing."""
    every = [(source, file) for source in SOURCES.values() for file in source.files]
    return [Status(source.name, file.name, _status(source, file, data_dir)) for source, file in every]


def _status(source: Source, file: File, data_dir: DataDir | None) -> str:
    path = lookup.find(source, file, data_dir)
    if path is None:
        return "missing"
    try:
        verify.read(source, {file.name: path})
    except DatasetError as refused:
        return str(refused)
    return "ok" if file.sha256 else "present, no checksum known"

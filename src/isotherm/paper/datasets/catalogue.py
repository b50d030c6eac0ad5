"""All data sets by name: list them, fetch one, check what is on disk."""

from pathlib import Path
from typing import Any, NamedTuple

from isotherm.lib import arguments
from isotherm.paper.datasets import acoustic, cifar10, digits, flights, letter, linear_regression, lookup, mnist, verify
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import DatasetError, File, Source

SOURCES = {
    module.SOURCE.name: module.SOURCE
    for module in (mnist, cifar10, letter, acoustic, flights, digits, linear_regression)
}


class Status(NamedTuple):
    """One file of one data set: `status` is "ok", "present, no checksum known", "missing", or why it is refused."""

    name: str
    file: str
    status: str


def catalogue() -> list[dict[str, Any]]:
    """Every data set: name, title, licence, citation, homepage, its files and their addresses."""
    return [
        {name: getattr(source, name) for name in ("name", "title", "licence", "citation", "homepage")}
        | {
            "files": [file.name for file in source.files],
            "addresses": list(dict.fromkeys(url for file in source.files for url in source.urls(file))),
        }
        for source in SOURCES.values()
    ]


def fetch(name: str, data_dir: DataDir | None = None) -> list[Path]:
    """The paths of all files of a data set, after making sure that they are on disk and have the right content.

    Missing files are downloaded into `data_dir/name`, or into the user's cache if no folder is given.
    """
    source = SOURCES[arguments.choice("name", name, SOURCES)]
    if data_dir is not None:
        Path(data_dir).expanduser().mkdir(parents=True, exist_ok=True)
    located = lookup.locate(source, data_dir, into=data_dir)
    verify.read(source, located)
    return list(dict.fromkeys(located.values()))


def check(data_dir: DataDir | None = None) -> list[Status]:
    """The state of every file of every data set; reads what is there, downloads nothing."""
    return [
        Status(source.name, file.name, _status(source, file, data_dir))
        for source in SOURCES.values()
        for file in source.files
    ]


def _status(source: Source, file: File, data_dir: DataDir | None) -> str:
    path = lookup.find(source, file, data_dir)
    if path is None:
        return "missing"
    try:
        verify.read(source, {file.name: path})
    except DatasetError as refused:
        return str(refused)
    return "ok" if file.sha256 else "present, no checksum known"

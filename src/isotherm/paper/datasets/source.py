"""What is known of a data set before it is read: its files, where they come from, their checksums (sources.toml)."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


class DatasetError(OSError):
    """A data file is missing, wrong or out of reach. The message names the file and says what to do."""


class WrongContentError(DatasetError):
    """A file does not hold what it must; `finding` says what is wrong and gives both checksums."""

    def __init__(self, finding: str, message: str) -> None:
        super().__init__(message)
        self.finding = finding


class Split(NamedTuple):
    """Training and test data, each `{"x": (N, features), "y": (N,)}`, ready for `isotherm.sample(data=...)`."""

    train: Arrays
    test: Arrays


@dataclass(frozen=True)
class File:
    """One file; name, checksum and size are those of its uncompressed content, None where they are not known."""

    name: str
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Source:
    """A data set: what it is, whose it is, its files (none if it is simulated or in a library); see sources.toml. Of an
    archive, only the files in `folder` are ever read."""

    name: str
    title: str
    homepage: str
    licence: str
    citation: str
    files: tuple[File, ...] = ()
    mirrors: tuple[str, ...] = ()
    archive: str = ""
    folder: str = ""
    text: bool = False

    def urls(self, file: File) -> list[str]:
        """Return where `file` can be downloaded, by itself or in the archive."""
        return [mirror.format(self.archive or file.name) for mirror in self.mirrors]


TOML = files("isotherm.paper.datasets").joinpath("sources.toml").read_text(encoding="utf-8")
SOURCES = {
    name: Source(name, **entry | {"files": tuple(File(**file) for file in entry.get("files", ()))})
    for name, entry in tomllib.loads(TOML).items()
}


def two_classes(data: Arrays, positive: int, negative: int) -> Arrays:
    """Select the images with either label: x float64, pixels/255; y float32, +1 for `positive`, −1 for `negative`."""
    keep = np.isin(data["y"], (positive, negative))
    return {"x": data["x"][keep] / 255.0, "y": np.where(data["y"][keep] == positive, 1, -1).astype(np.float32)}

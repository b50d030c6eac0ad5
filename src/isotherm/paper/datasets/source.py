"""What is known of a data set before it is read: its files, where they come from, their checksums."""

from dataclasses import dataclass
from typing import Any, NamedTuple

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
    """One file; name, checksum and size are those of its uncompressed content.

    `sha256` and `size` are None where they are not known; the loader then checks the format instead.
    """

    name: str
    urls: tuple[str, ...] = ()
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Archive:
    """A tar archive that holds all files of a data set in one folder; only they are ever read from it."""

    name: str
    urls: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class Source:
    """A data set: what it is, whose it is, its files (none if it is simulated or in a library)."""

    name: str
    title: str
    homepage: str
    licence: str
    citation: str
    files: tuple[File, ...] = ()
    archive: Archive | None = None
    text: bool = False  # the files are lines of text; checksums are of the lines without blanks at their ends

    def urls(self, file: File) -> tuple[str, ...]:
        """Where `file` can be downloaded, by itself or in the archive."""
        return self.archive.urls if self.archive else file.urls

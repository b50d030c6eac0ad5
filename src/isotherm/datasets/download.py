"""Downloads: by pooch, with a progress bar on a terminal, verified before they get their name."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from isotherm.datasets.source import DatasetError, File, Source, WrongContentError

TIMEOUT = 30  # seconds without an answer
CHUNK = 1 << 18


def download(source: Source, file: File, folder: Path, verify: Callable[[Path], None], advise: Path) -> Path:
    """Fetch `file`, or the archive it comes in, into `folder` from the first address that gives the right content.

    It is written beside its place, verified and then renamed: what bears the name is whole. If no address works, one
    sentence says which were tried and that the file can be put into `advise` by hand.
    """
    reasons = []
    for url in source.urls(file):
        name = url.rsplit("/", 1)[-1]
        partial = folder / f"{name}.part-{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _fetch(url, partial)
            verify(partial)
            os.replace(partial, folder / name)
            return folder / name
        except WrongContentError as wrong:
            reasons.append(f"{url} (not that file: {wrong.finding})")
        except (OSError, ValueError) as fault:
            reasons.append(f"{url} ({getattr(fault, 'strerror', None) or type(fault).__name__})")
        finally:
            with suppress(OSError):
                partial.unlink()
    wanted = source.archive.name if source.archive else file.name
    raise DatasetError(
        f"{source.name}: {wanted} could not be downloaded from {' or '.join(reasons)}: "
        f"fetch it elsewhere and put it, plain or compressed, into {advise}"
    )


def _fetch(url: str, path: Path) -> None:
    import pooch

    with _bar(url.rsplit("/", 1)[-1]) as bar:
        pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT)(url, str(path), None)


@contextmanager
def _bar(name: str) -> Iterator[Any]:
    """A progress bar of the kind pooch accepts, or False where nobody is looking."""
    if not sys.stderr.isatty():
        yield False
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield Bar(progress, progress.add_task(name, total=None))


class Bar:
    """pooch's view of a rich progress bar: `total`, `update`, `reset`, `close`."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task, self._total = progress, task, 0

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, value: int) -> None:
        self._total = value
        self._progress.update(self._task, total=value or None)

    def update(self, amount: int) -> None:
        self._progress.advance(self._task, amount)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.refresh()

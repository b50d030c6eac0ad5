"""Downloads with pooch: a progress bar on a terminal, and content verified before a file gets its name."""

import sys
from pathlib import Path
from typing import Any

from isotherm.lib import files
from isotherm.lib.optional import extra
from isotherm.paper.datasets import verify
from isotherm.paper.datasets.source import DatasetError, File, Source, WrongContentError

TIMEOUT = 30  # seconds without an answer, after which the next address is tried
CHUNK = 1 << 18  # bytes between two moves of the progress bar


def download(source: Source, file: File, folder: Path, by_hand: Path) -> Path:
    """Fetch `file`, or the archive it comes in, into `folder` from the first address that gives the right content.

    If no address does, the error says which were tried and that the file can be put into the folder `by_hand`.
    """
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
    wanted = source.archive.name if source.archive else file.name
    raise DatasetError(
        f"{source.name}: {wanted} could not be downloaded from {' or '.join(reasons)}: fetch it elsewhere and put it, "
        f"plain or compressed, into {by_hand}, or give the folder that has it (data_dir=, --data or $ISOTHERM_DATA)"
    )


def _fetch(url: str, path: Path) -> None:
    with extra("paper", "a download"):
        import pooch
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        bar = Bar(progress, progress.add_task(url.rsplit("/", 1)[-1], total=None))
        pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT)(url, str(path), None)


class Bar:
    """pooch's view of a rich progress bar: `total`, `update`, `reset`, `close`."""

    total = 0

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def update(self, amount: int) -> None:
        self._progress.update(self._task, advance=amount, total=self.total or None)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.refresh()

"""Progress on standard error, where somebody looks at it."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


def progress_bar(show: bool, *columns: "ProgressColumn | str") -> "Progress":
    """Return a bar of these columns; silent unless `show` and standard error is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not (show and (console.is_terminal or console.is_jupyter)))


class Passes:
    """Counts rows that were looked at, over all there are; silent unless `show` and standard error is a terminal."""

    def __init__(self, rows: int, show: bool) -> None:
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        self.rows, self.seen = rows, 0
        self.progress = progress_bar(
            show,
            SpinnerColumn(),
            TextColumn("anchoring: {task.description}"),
            TextColumn("{task.fields[passes]} passes over the data"),
            TimeElapsedColumn(),
        )
        self.task = self.progress.add_task("", total=None, passes="0.0")

    @property
    def done(self) -> float:
        return self.seen / self.rows

    def say(self, doing: str) -> None:
        self.progress.update(self.task, description=doing)

    def add(self, rows: int) -> None:
        self.seen += rows
        self.progress.update(self.task, passes=f"{self.done:.1f}")

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.progress.stop()

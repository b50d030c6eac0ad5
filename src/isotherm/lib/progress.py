"""Progress on standard error, where somebody looks at it."""

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


def progress_bar(show: bool, *columns: "ProgressColumn | str") -> "Progress":
    """Return a bar of these columns; silent unless `show` and standard error is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not (show and (console.is_terminal or console.is_jupyter)))


class StatusLine:
    """A line that says what is being done; silent unless `show` and standard error is a terminal."""

    def __init__(self, title: str, show: bool, *columns: str) -> None:
        from rich.progress import SpinnerColumn, TimeElapsedColumn

        words = f"{title}: {{task.description}}", *columns
        self.progress = progress_bar(show, SpinnerColumn(), *words, TimeElapsedColumn())
        self.task = self.progress.add_task("", total=None, passes="0.0")

    def say(self, doing: str) -> None:
        self.progress.update(self.task, description=doing)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()


class Passes(StatusLine):
    """Counts rows that were looked at, over all there are."""

    def __init__(self, rows: int, show: bool) -> None:
        super().__init__("anchoring", show, "{task.fields[passes]} passes over the data")
        self.rows, self.seen = rows, 0

    @property
    def done(self) -> float:
        return self.seen / self.rows

    def add(self, rows: int) -> None:
        self.seen += rows
        self.progress.update(self.task, passes=f"{self.done:.1f}")

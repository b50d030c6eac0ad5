"""Progress on standard error, where somebody looks at it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


def progress(show: bool, *columns: "ProgressColumn | str") -> "Progress":
    """A bar of these columns; silent unless `show` and standard error is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not (show and (console.is_terminal or console.is_jupyter)))

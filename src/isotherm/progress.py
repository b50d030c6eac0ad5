"""A progress bar for a terminal, and a Ctrl-C that waits for the chunk in hand."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Bar:
    """Steps a second, kinetic temperature, time left; silent unless `show` and standard error is a terminal."""

    def __init__(self, total: int, show: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]} steps/s"),
            TextColumn("temperature {task.fields[temperature]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not (show and (console.is_terminal or console.is_jupyter)),
        )
        self.task = self.progress.add_task("compiling", total=total, speed="–", temperature="–")

    def __enter__(self) -> "Bar":
        self.progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()

    def update(self, step: int, burn_in: int, speed: float, temperature: float | None) -> None:
        self.progress.update(
            self.task,
            completed=step,
            description="burn-in" if step < burn_in else "sampling",
            speed=f"{speed:,.0f}",
            temperature="–" if temperature is None else f"{temperature:.3g}",
        )


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, so that a loop can stop at a good place; a second Ctrl-C stops at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)

"""A progress bar for a terminal, and signals that wait for the chunk in hand."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Bar:
    """Steps a second, kinetic temperature, time left; silent unless `show` and standard error is a terminal."""

    def __init__(self, total: int, show: bool, done: int = 0) -> None:
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
        self.task = self.progress.add_task("compiling", total=total, completed=done, speed="–", temperature="–")

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


class Stop:
    """Whether a signal asked to stop, which one, and what would have happened without us."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.before: dict[int, Any] = {}

    def is_set(self) -> bool:
        return self.signal is not None

    def handle(self, signum: int, frame: FrameType | None) -> None:
        if self.is_set() and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signum

    def obey(self) -> None:
        """After all is put away: end the process if it was told to end; Ctrl-C asked only for what there is."""
        if self.signal is None or self.signal == signal.SIGINT:
            return
        before = self.before[self.signal]
        if callable(before):
            before(self.signal, None)
        else:
            raise SystemExit(128 + self.signal)


@contextmanager
def interruptible(and_terminated: bool = False) -> Iterator[Stop]:
    """Ctrl-C sets the stop, so that a loop can end at a good place; a second Ctrl-C stops at once.

    `and_terminated`: so do SIGTERM and SIGHUP, unless they are ignored.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    ending = (signal.SIGTERM, signal.SIGHUP) if and_terminated else ()
    for signum in (signal.SIGINT, *ending):
        if signum == signal.SIGINT or signal.getsignal(signum) not in (signal.SIG_IGN, None):
            stop.before[signum] = signal.signal(signum, stop.handle)
    try:
        yield stop
    finally:
        for signum, before in stop.before.items():
            signal.signal(signum, before)

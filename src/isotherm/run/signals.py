"""Signals, obeyed when the current chunk is done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from isotherm.data import processes


class Stop:
    """Whether a signal asked to stop, which one, and who would have handled it without us."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.handlers_before: dict[int, Any] = {}

    def is_set(self) -> bool:
        return self.signal is not None

    def handle(self, signum: int, frame: FrameType | None) -> None:
        if self.is_set() and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signum

    def obey(self) -> None:
        """After all is stored: end the process if it was told to end; Ctrl-C asks only for the draws so far."""
        if self.signal is None or self.signal == signal.SIGINT:
            return
        before = self.handlers_before[self.signal]
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
    if threading.current_thread() is threading.main_thread():  # others have no handlers to set
        ending = (signal.SIGTERM, signal.SIGHUP) if and_terminated else ()
        # A handler that Python did not install (None) is left alone, unless there are several processes: it is then
        # JAX's for SIGTERM, which does not stop.
        others = (signal.SIG_IGN,) if processes.several() else (signal.SIG_IGN, None)
        for number in (signal.SIGINT, *(n for n in ending if signal.getsignal(n) not in others)):
            stop.handlers_before[number] = signal.signal(number, stop.handle)
    try:
        yield stop
    finally:
        for signum, before in stop.handlers_before.items():
            signal.signal(signum, signal.SIG_DFL if before is None else before)

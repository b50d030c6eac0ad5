"""A thread that does one job after the other, and whose first failure is told to whoever hands it the next."""

import queue
import threading
from collections.abc import Callable


class Writer:
    """At most `waiting` jobs wait; handing over one more waits too, so that a slow disk costs time, not memory."""

    def __init__(self, waiting: int = 2) -> None:
        self.jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(waiting)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.work, name="isotherm-store", daemon=True)
        self.thread.start()

    def work(self) -> None:
        while (job := self.jobs.get()) is not None:
            if self.failure is None:
                try:
                    job()
                except BaseException as error:
                    self.failure = error

    def put(self, job: Callable[[], None]) -> None:
        self.jobs.put(job)
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Wait for what was handed over."""
        if self.thread.is_alive():
            self.jobs.put(None)
            self.thread.join()

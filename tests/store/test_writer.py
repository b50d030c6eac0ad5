"""Jobs are done in order, a failure is told, and no more than a few wait."""

import queue
import threading

import pytest

from isotherm.store.writer import Writer


def test_a_writer_tells_its_first_failure():
    writer, done = Writer(), []
    writer.put(lambda: done.append(1))

    def fail():
        raise ValueError("first")

    writer.jobs.put(fail)
    writer.jobs.put(lambda: done.append(2))
    writer.close()
    with pytest.raises(ValueError, match="first"):
        writer.check()
    assert done == [1]


def test_jobs_are_done_in_order_and_closing_waits_for_them():
    writer, done = Writer(), []
    for number in range(50):
        writer.put(lambda number=number: done.append(number))
    writer.close()
    assert done == list(range(50))
    assert not writer.thread.is_alive()
    writer.close()
    writer.check()


def test_who_hands_over_one_more_waits():
    writer, begun, go_on = Writer(waiting=1), threading.Event(), threading.Event()

    def slow():
        begun.set()
        go_on.wait()

    writer.put(slow)
    begun.wait()
    writer.put(go_on.wait)  # the one that may wait
    with pytest.raises(queue.Full):
        writer.jobs.put(print, block=False)
    go_on.set()
    writer.close()

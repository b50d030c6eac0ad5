"""A signal waits for the chunk in hand; a second Ctrl-C does not."""

import signal
import threading

import pytest

from isotherm.run.execute import interruptible


@pytest.fixture(autouse=True)
def handlers():
    """Python's own handler of Ctrl-C (a job in the background may ignore it), and all as they were in the end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_ctrl_c_sets_the_stop_and_nothing_else():
    with interruptible() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
    stop.obey()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_raises_at_once():
    with interruptible():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_told_to_end_it_ends_when_all_is_put_away(number, status):
    with interruptible(and_terminated=True) as stop:
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert stop.signal == number
    assert signal.getsignal(number) == signal.SIG_DFL
    with pytest.raises(SystemExit) as ended:
        stop.obey()
    assert ended.value.code == status


def test_ctrl_c_after_sigterm_raises_at_once():
    with interruptible(and_terminated=True):
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_users_handler_is_called_in_the_end():
    called = []
    signal.signal(signal.SIGTERM, lambda number, frame: called.append(number))
    with interruptible(and_terminated=True) as stop:
        signal.raise_signal(signal.SIGTERM)
        assert not called
    stop.obey()
    assert called == [signal.SIGTERM]


def test_what_is_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruptible(and_terminated=True) as stop:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.is_set()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_run_without_a_store_leaves_sigterm_alone():
    with interruptible():
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler


def test_other_threads_have_no_handlers_to_set():
    found = []

    def work():
        with interruptible(and_terminated=True) as stop:
            found.append((stop.is_set(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, signal.default_int_handler)]

"""SIGTERM and Ctrl-C as an exception and as an event, in the main thread alone."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from patchprint.common.signals import STOPPED, sigterm_as_exit, stop_as_event


def test_an_exception_closes_what_is_open_and_the_handler_comes_back() -> None:
    before, closed = signal.getsignal(signal.SIGTERM), []
    with pytest.raises(SystemExit) as stop, sigterm_as_exit():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            closed.append(True)
    assert stop.value.code == STOPPED == 128 + signal.SIGTERM
    assert closed == [True] and signal.getsignal(signal.SIGTERM) == before


def test_an_event_lets_the_work_finish() -> None:
    with stop_as_event() as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.is_set()
    assert isinstance(asked.exception(), SystemExit)


@pytest.fixture
def in_the_foreground() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_the_foreground")
def test_l7_ctrl_c_lets_the_work_finish_and_a_second_one_does_not() -> None:
    with stop_as_event() as asked:
        os.kill(os.getpid(), signal.SIGINT)
        assert asked.is_set() and isinstance(asked.exception(), KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_ctrl_c_that_is_for_others_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stop_as_event() as asked:
            os.kill(os.getpid(), signal.SIGINT)
            assert not asked.is_set()
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_the_handler_alone() -> None:
    seen = []

    def work() -> None:
        with stop_as_event() as asked, sigterm_as_exit():
            seen.append((signal.getsignal(signal.SIGTERM), asked.is_set()))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]

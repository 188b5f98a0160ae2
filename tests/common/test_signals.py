"""SIGTERM as an exception and as an event, in the main thread alone."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from patchprint.common.signals import STOPPED, sigterm_as_event, sigterm_as_exit


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
    with sigterm_as_event() as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.is_set()


def test_other_threads_leave_the_handler_alone() -> None:
    seen = []

    def work() -> None:
        with sigterm_as_event() as asked, sigterm_as_exit():
            seen.append((signal.getsignal(signal.SIGTERM), asked.is_set()))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]

"""SIGTERM and Ctrl-C as an exception or an event, so that a process can clean up; in the main thread only."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

STOPPED = 143  # exit code of a process that SIGTERM ended


class StopEvent(threading.Event):
    """Set by SIGTERM or Ctrl-C."""

    by_keyboard = False

    def exception(self) -> BaseException:
        """Return the exception that ends the process as the signal would."""
        return KeyboardInterrupt() if self.by_keyboard else SystemExit(STOPPED)


@contextlib.contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """Raise SystemExit on SIGTERM, so that whatever is open is closed."""

    def leave() -> None:
        raise SystemExit(STOPPED)

    with on_signal(signal.SIGTERM, leave):
        yield


@contextlib.contextmanager
def stop_as_event() -> Iterator[StopEvent]:
    """Set the event on SIGTERM and Ctrl-C, so that work can finish; a second Ctrl-C raises at once."""
    asked = StopEvent()

    def interrupt() -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.by_keyboard = True
        asked.set()

    with on_signal(signal.SIGTERM, asked.set), on_signal(signal.SIGINT, interrupt):
        yield asked


@contextlib.contextmanager
def on_signal(number: signal.Signals, act: Callable[[], None]) -> Iterator[None]:
    """Run a function on a signal, unless the signal is ignored or this is not the main thread."""
    # What runs in the background ignores Ctrl-C, which is meant for others.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(number) == signal.SIG_IGN:
        yield
        return
    previous = signal.signal(number, lambda *_: act())
    try:
        yield
    finally:
        signal.signal(number, previous)

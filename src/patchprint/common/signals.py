"""SIGTERM, by which others end a process: as an exception or as an event, so that what was begun is put in order first.

Handlers belong to the main thread; in any other one SIGTERM stays as it is.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

STOPPED = 143
"""The exit code of a process that SIGTERM ended."""


@contextlib.contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """SIGTERM raises SystemExit, so that whatever is open is closed."""

    def leave() -> None:
        raise SystemExit(STOPPED)

    with _on_sigterm(leave):
        yield


@contextlib.contextmanager
def sigterm_as_event() -> Iterator[threading.Event]:
    """SIGTERM sets the event, so that the work under way can finish."""
    asked = threading.Event()
    with _on_sigterm(asked.set):
        yield asked


@contextlib.contextmanager
def _on_sigterm(act: Callable[[], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: act())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)

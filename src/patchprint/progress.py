"""How far a long piece of work is: a bar on a terminal; elsewhere, as in a log file, a line on stderr now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar

from tqdm import tqdm

from patchprint.errors import MissingPackageError

T = TypeVar("T")

FIRST_LINE = 10.0  # seconds after which a log hears of it for the first time; what is done sooner stays silent
NEXT_LINES = 60.0  # seconds between later lines


class Progress:
    """``with Progress("describing", 20, "photo") as progress: ... progress.update()``.

    Lines come by the clock, also while nothing is counted: COLMAP verifies for minutes without a word.

    Args:
        what: the work, as the beginning of a line.
        total: how many units there are, if that is known.
        unit: what is counted, in the singular.
        done: how many were done before.
    """

    def __init__(self, what: str, total: int | None = None, unit: str = "", done: int = 0) -> None:
        self.what, self.total, self.unit, self.done = what, total, unit, done
        self._before = done
        self._started = self._counted = time.monotonic()
        self._ended = threading.Event()
        self._bar: tqdm | None = None

    def __enter__(self) -> Progress:
        self._started = self._counted = time.monotonic()
        if sys.stderr.isatty():
            self._bar = tqdm(desc=self.what, total=self.total, unit=self.unit or "it", initial=self.done)
        else:
            threading.Thread(target=self._write_lines, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._bar is not None:
            self._bar.close()

    def update(self, count: int = 1) -> None:
        self.done += count
        self._counted = time.monotonic()
        if self._bar is not None:
            self._bar.update(count)

    def line(self) -> str:
        """What a log is told now."""
        seconds = time.monotonic() - self._started
        parts = [f"{seconds:.0f} s"]
        if self.unit:
            of_total = "" if self.total is None else f" of {self.total}"
            parts.insert(0, f"{self.done}{of_total} {self.unit}s")
        if self.total is not None and self.done > self._before:
            # By the units that are complete; the one that is under way has had its time since the last of them.
            each = (self._counted - self._started) / (self.done - self._before)
            left = each * (self.total - self.done) - (time.monotonic() - self._counted)
            parts.append(f"about {max(0.0, left):.0f} s left")
        return f"{self.what}: {', '.join(parts)}"

    def _write_lines(self) -> None:
        wait = FIRST_LINE
        while not self._ended.wait(wait):
            print(self.line(), file=sys.stderr, flush=True)
            wait = NEXT_LINES


def note(message: object) -> None:
    """A line on stderr, above the bar if there is one."""
    tqdm.write(str(message), file=sys.stderr)


def leave_out(error: Exception, strict: bool, report: Callable[[str], None] = note) -> None:
    """Name what cannot be used and go on without it; with ``strict``, stop there."""
    if strict or isinstance(error, MissingPackageError):
        raise error
    report(f"left out: {error}")


def progress(items: Iterable[T], what: str, unit: str, total: int | None = None) -> Iterator[T]:
    """The items, with progress by each that was worked on; ``total`` where they cannot be counted by themselves."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Progress(what, total, unit) as counter:
        for item in items:
            yield item
            counter.update()

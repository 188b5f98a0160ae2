"""Progress of long work: a bar on a terminal, else lines on stderr at intervals; JSON lines for programs."""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from tqdm import tqdm

from patchprint.common.errors import MissingPackageError, UserError

T = TypeVar("T")

FIRST_LINE = 10.0  # seconds until the first line of a log
NEXT_LINES = 60.0  # seconds between later lines
JSON_LINES = 1.0  # seconds between lines for programs
_watched: list[IO[str]] = []  # files of `json_lines`


@contextlib.contextmanager
def json_lines(path: str | Path | None) -> Iterator[None]:
    """Also append all progress inside to this file, as `Progress.state` every second and at the end of each piece of work."""
    if path is None:
        yield
        return
    try:
        stream = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed below, and only this is to be caught
    except OSError as error:
        raise UserError(f"progress cannot be written to {path}: {error.strerror}") from error
    with stream:
        _watched.append(stream)
        try:
            yield
        finally:
            _watched.remove(stream)


class Stations:
    """Seconds that the stations of a pipeline have taken, whichever threads they ran in; for where the time goes."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._turn = threading.Lock()

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count the time inside for a station."""
        started = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - started
            with self._turn:
                self._seconds[name] = self._seconds.get(name, 0.0) + taken
                self._counts[name] = self._counts.get(name, 0) + 1

    def milliseconds(self) -> dict[str, float]:
        """Return the mean of each station, in the order in which they were first done."""
        with self._turn:
            return {name: round(1e3 * taken / self._counts[name], 2) for name, taken in self._seconds.items()}


class Progress:
    """``with Progress("describing", 20, "image") as progress: ... progress.update()``.

    Lines come by the clock, also while nothing is counted.

    Args:
        what: the work, as the beginning of a line.
        total: how many units there are, if that is known.
        unit: what is counted, in the singular.
        stations: of the pipeline that works, whose times are shown too.
    """

    def __init__(self, what: str, total: int | None = None, unit: str = "", stations: Stations | None = None) -> None:
        self.what, self.total, self.unit, self.stations = what, total, unit, stations or Stations()
        self.done = self.failed = 0
        self._started = self._counted = time.monotonic()
        self._ended = threading.Event()
        self._output = threading.Lock()  # nothing is written after the end
        self._bar: tqdm | None = None

    def __enter__(self) -> Self:
        self._started = self._counted = time.monotonic()
        if sys.stderr.isatty():
            self._bar = tqdm(desc=self.what, total=self.total, unit=self.unit or "it")
        else:
            self._repeat(lambda: print(self.line(), file=sys.stderr, flush=True), FIRST_LINE, NEXT_LINES)
        for stream in _watched:
            self._repeat(partial(self._write_json, stream), JSON_LINES, JSON_LINES)
        return self

    def __exit__(self, *error: object) -> None:
        with self._output:
            self._ended.set()
        if self._bar is not None:
            self._bar.close()
        for stream in _watched:
            self._write_json(stream)

    def update(self, count: int = 1, failed: int = 0) -> None:
        """Count units that are done, ``failed`` of them without a result."""
        self.done += count
        self.failed += failed
        self._counted = time.monotonic()
        if self._bar is not None:
            if failed:
                self._bar.set_postfix(failed=self.failed, refresh=False)
            self._bar.update(count)

    def state(self) -> dict[str, Any]:
        """Return the state for programs; what is not known is None."""
        now = time.monotonic()
        spent = self._counted - self._started
        left = None
        if self.total is not None and self.done:
            # By the units that are complete; the one that is under way has had its time since the last of them.
            left = max(0.0, spent / self.done * (self.total - self.done) - (now - self._counted))
        return {
            "what": self.what,
            "unit": self.unit,
            "done": self.done,
            "total": self.total,
            "failed": self.failed,
            "seconds": round(now - self._started, 3),
            "per_second": round(self.done / spent, 4) if self.done and spent > 0 else None,
            "seconds_left": None if left is None else round(left, 3),
            "stations_ms": self.stations.milliseconds(),
            "ended": self._ended.is_set(),
        }

    def line(self) -> str:
        """Return the state as a line of a log."""
        state = self.state()
        parts = [f"{state['seconds']:.0f} s"]
        if self.unit:
            of_total = "" if self.total is None else f" of {self.total}"
            parts.insert(0, f"{self.done}{of_total} {self.unit}s")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.unit and state["per_second"] is not None:
            parts.append(f"{state['per_second']:.3g} {self.unit}s/s")
        if state["seconds_left"] is not None:
            parts.append(f"about {state['seconds_left']:.0f} s left")
        if state["stations_ms"]:
            parts.append(", ".join(f"{name} {taken:g} ms" for name, taken in state["stations_ms"].items()))
        return f"{self.what}: {', '.join(parts)}"

    def _write_json(self, stream: IO[str]) -> None:
        stream.write(json.dumps(self.state(), ensure_ascii=False) + "\n")

    def _repeat(self, write: Callable[[], None], first: float, later: float) -> None:
        def loop() -> None:
            wait = first
            while not self._ended.wait(wait):
                with self._output:
                    if not self._ended.is_set():
                        write()
                wait = later

        threading.Thread(target=loop, daemon=True).start()


def note(message: object) -> None:
    """Print a line on stderr, above the bar if there is one."""
    tqdm.write(str(message), file=sys.stderr)


def skip_or_raise(error: Exception, strict: bool, report: Callable[[str], None] = note) -> None:
    """Report an input that cannot be used and go on; with ``strict``, raise the error."""
    if strict or isinstance(error, MissingPackageError):
        raise error
    report(f"left out: {error}")


def progress(items: Iterable[T], what: str, unit: str, total: int | None = None) -> Iterator[T]:
    """Yield the items and show progress; ``total`` for items without a length."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Progress(what, total, unit) as counter:
        for item in items:
            yield item
            counter.update()

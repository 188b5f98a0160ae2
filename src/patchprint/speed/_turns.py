"""Times of several ways to do the same, taken in turns, so that a busy moment does not fall on one of them alone."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from patchprint.common.errors import UserError
from patchprint.common.progress import Progress

Task = Callable[[], object]

SHORTEST = 0.05  # seconds of one measurement: a task that is faster is done several times in it
PAUSE = 0.01  # seconds before each, in which the threads of the library before it stop spinning and leave the cores

# Spins on one core until its parent is gone, also where that was killed.
_SPIN = """
import os, sys
parent, core = map(int, sys.argv[1:])
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {core})
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


@dataclass(frozen=True)
class Times:
    """Seconds of one call in each round."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def times_faster_than(self, other: Times) -> float:
        """Median over the rounds: both were measured within moments of each other in each of them."""
        return statistics.median(theirs / own for own, theirs in zip(self.rounds, other.rounds, strict=True))


def check_turns(rounds: int, busy: int) -> None:
    """Raise UserError where these cannot be."""
    cores = len(_cores())
    if rounds < 1:
        raise UserError(f"--rounds is {rounds}; give at least 1")
    if not 0 <= busy <= cores:
        raise UserError(f"--busy is {busy}, and there are {cores} cores; give a number from 0 to {cores}")


def in_turns(what: str, tasks: Mapping[str, Task], rounds: int, device: torch.device) -> dict[str, Times]:
    """The times of each task, by its name. The first call of each is for warming up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    with Progress(f"timing {what}", len(tasks) * (rounds + 1), "call") as progress:
        calls = {}
        for name, task in tasks.items():
            calls[name] = _calls_that_last(task, device)
            progress.update()
        for _ in range(rounds):
            for name, task in tasks.items():
                time.sleep(PAUSE)
                seconds[name].append(_seconds(task, calls[name], device))
                progress.update()
    return {name: Times(tuple(values)) for name, values in seconds.items()}


@contextlib.contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep ``count`` of the cores that this process may use busy with other processes, one each."""
    command = [sys.executable, "-c", _SPIN, str(os.getpid())]
    others = [subprocess.Popen([*command, str(core)]) for core in _cores()[:count]]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def _cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def _calls_that_last(task: Task, device: torch.device) -> int:
    """How many calls take SHORTEST seconds; the first call, which may compile and allocate, does not tell."""
    _seconds(task, 1, device)
    return max(1, math.ceil(SHORTEST / _seconds(task, 1, device)))


def _seconds(task: Task, calls: int, device: torch.device) -> float:
    """Seconds of one call, with all that it left to the device."""
    started = time.perf_counter()
    for _ in range(calls):
        task()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - started) / calls

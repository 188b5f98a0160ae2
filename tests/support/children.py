"""Work done in a forked child, which may be killed, so that the process that looks at what it left lives on."""

import itertools
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from patchprint.common.errors import UserError

Action = Callable[[], object]
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "tempfile.mkdtemp", "tempfile.mkstemp")


@dataclass(frozen=True)
class Ending:
    """How a child ended: ``done`` (``said`` is what the action returned), ``refused`` (an error of the disk or the user, which
    ``said`` tells), ``crashed`` (any other exception, or a signal that nobody sent), or ``killed``."""

    how: str
    said: str = ""


def run(action: Action) -> Ending:
    """Do it in a child to its end."""
    return _ending(*_start(action))


def kill_at(moment: int, action: Action) -> Ending:
    """Do it in a child that is killed before its ``moment``-th change of names on the disk, if it gets that far."""
    changes = itertools.count(1)
    return kill_when(lambda event, _: event in CHANGES and next(changes) == moment, action)


def kill_when(condition: Callable[[str, tuple], bool], action: Action) -> Ending:
    """Do it in a child that is killed when an audit event, with its arguments, meets a condition."""

    def hooked() -> object:
        sys.addaudithook(lambda *event: os.kill(os.getpid(), signal.SIGKILL) if condition(*event) else None)
        return action()

    return _ending(*_start(hooked), may_be_killed=True)


def kill_after(seconds: float, action: Action) -> Ending:
    """Do it in a child that is killed after so long, if it takes that long."""
    child, pipe = _start(action)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return _ending(child, pipe, may_be_killed=True)


def side_by_side(actions: list[Action], generator: random.Random) -> list[Ending]:
    """Do all of them at once, each in a child, begun in random order."""
    order = generator.sample(range(len(actions)), len(actions))
    started = {number: _start(actions[number]) for number in order}
    return [_ending(*started[number]) for number in range(len(actions))]


def _start(action: Action) -> tuple[int, int]:
    """The child, and the pipe through which it tells how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        try:
            told = f"done {action() or ''}"
        except (OSError, UserError) as error:
            told = f"refused {error}"
        except BaseException:
            told = f"crashed {traceback.format_exc()}"
        os.write(writing, told.encode()[:60_000])
    finally:
        os._exit(0)


def _ending(child: int, pipe: int, may_be_killed: bool = False) -> Ending:
    with open(pipe, "rb") as stream:
        how, _, said = stream.read().decode(errors="replace").partition(" ")
    status = os.waitpid(child, 0)[1]
    if how:
        return Ending(how, said)
    if may_be_killed and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return Ending("killed")
    return Ending("crashed", f"signal {os.WTERMSIG(status)}")

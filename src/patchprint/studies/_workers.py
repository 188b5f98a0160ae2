"""Tasks side by side in a few long-lived processes, which import torch once; one that dies takes only its task with it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from patchprint.common.signals import sigterm_as_exit

Task = TypeVar("Task")
# Seconds in which a run that was asked to stop writes its checkpoint.
_PATIENCE = 60


def each(function: Callable[[Task], str], tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Task, str]]:
    """Every task with what ``function`` returns for it, as they finish; a process that died is said so in its place.

    One job at a time is done in this process. Where the caller is stopped, so are the processes: each gets SIGTERM, on which
    a training run writes its checkpoint.
    """
    waiting = deque(tasks)
    if jobs == 1:
        for task in waiting:
            yield task, function(task)
        return
    workers = [_Worker(function) for _ in range(min(jobs, len(waiting)))]
    with sigterm_as_exit(), _shared_cores(jobs):
        try:
            for worker in workers:
                worker.begin(waiting.popleft())
            while busy := {worker.connection: worker for worker in workers if worker.is_busy}:
                for connection in wait(list(busy)):
                    worker = busy[connection]  # type: ignore[index]
                    done = worker.finish()
                    if waiting:
                        worker.begin(waiting.popleft())
                    yield done
        finally:
            for worker in workers:
                worker.ask_to_stop()
            for worker in workers:
                worker.join()


class _Worker(Generic[Task]):
    """One process and the task that it has; a process is started when there is something to do."""

    def __init__(self, function: Callable[[Task], str]) -> None:
        self._function = function
        self._process: Any = None
        self._task: Task | None = None
        self.connection: Connection

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    def begin(self, task: Task) -> None:
        if self._process is None:
            spawn = multiprocessing.get_context("spawn")
            self.connection, theirs = spawn.Pipe()
            self._process = spawn.Process(target=_serve, args=(theirs, self._function))
            self._process.start()
            theirs.close()  # so that its end is seen here
        self.connection.send(task)
        self._task = task

    def finish(self) -> tuple[Task, str]:
        """The task and its answer, once the connection is ready."""
        assert self._task is not None
        task, self._task = self._task, None
        try:
            return task, self.connection.recv()
        except EOFError:
            self._process.join()
            code, self._process = self._process.exitcode, None
            return task, f"its process ended with exit code {code}"

    def ask_to_stop(self) -> None:
        if self._process is not None and self.is_busy:
            self._process.terminate()
        elif self._process is not None:
            self.connection.close()

    def join(self) -> None:
        if self._process is not None:
            self._process.join(_PATIENCE)
            self._process.kill()
            self._process.join()


def _serve(connection: Connection, function: Callable[[Any], str]) -> None:
    """Task after task, until the other end closes. The terminal's Ctrl-C is for the parent, who then asks to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError):
        while True:
            connection.send(function(connection.recv()))


@contextlib.contextmanager
def _shared_cores(jobs: int) -> Iterator[None]:
    """Processes that start meanwhile take their part of the cores, unless the user has said how many threads they have."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // jobs))
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]

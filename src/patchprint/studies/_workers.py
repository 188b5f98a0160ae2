"""Run tasks in a few long-lived processes, which import torch once; one that dies takes only its task with it.

Workers are spawned, since a forked child of a process that has used torch's threads or a GPU may hang.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from patchprint.common.signals import sigterm_as_exit

Task = TypeVar("Task")
_PATIENCE = 60  # seconds in which a task that is asked to stop may write its checkpoint


def run_tasks(function: Callable[[Task], str], tasks: Iterable[Task], workers: int) -> Iterator[tuple[Task, str]]:
    """Yield every task with what ``function`` returns for it, as they finish; of a worker that died, that it did.

    One worker is this process. Where the caller is stopped, by SIGTERM too, so are the workers.
    """
    waiting = deque(tasks)
    if workers == 1:
        for task in waiting:
            yield task, function(task)
        return
    pool = [_Worker(function) for _ in range(min(workers, len(waiting)))]
    with sigterm_as_exit(), _shared_cores(workers):
        try:
            for worker in pool:
                worker.begin(waiting.popleft())
            while busy := {worker.connection: worker for worker in pool if worker.task is not None}:
                for connection in wait(list(busy)):
                    worker = busy[connection]  # type: ignore[index]
                    done = worker.finish()
                    if waiting:
                        worker.begin(waiting.popleft())
                    yield done
        finally:
            for worker in pool:
                worker.ask_to_stop()
            for worker in pool:
                worker.join()


class _Worker(Generic[Task]):
    """A process, started with its first task and again after it died, and the task that it has."""

    def __init__(self, function: Callable[[Task], str]) -> None:
        self._function = function
        self._process: Any = None
        self.task: Task | None = None
        self.connection: Connection

    def begin(self, task: Task) -> None:
        if self._process is None:
            spawn = multiprocessing.get_context("spawn")
            self.connection, theirs = spawn.Pipe()
            self._process = spawn.Process(target=_serve, args=(theirs, self._function))
            self._process.start()
            theirs.close()  # so that the death of the process closes the pipe
        self.task = task
        with contextlib.suppress(OSError):  # the process died meanwhile, as `finish` says
            self.connection.send(task)

    def finish(self) -> tuple[Task, str]:
        """Return the task and its answer, once the connection is readable."""
        assert self.task is not None
        task, self.task = self.task, None
        try:
            return task, self.connection.recv()
        except (EOFError, ConnectionError):
            self.connection.close()
            self._process.join()
            code, self._process = self._process.exitcode, None
            return task, f"its process ended with exit code {code}"

    def ask_to_stop(self) -> None:
        """Close an idle process; send SIGTERM to a busy one, on which a training run writes its checkpoint."""
        if self._process is not None and self.task is not None:
            self._process.terminate()
        elif self._process is not None:
            self.connection.close()

    def join(self) -> None:
        if self._process is not None:
            self._process.join(_PATIENCE)
            self._process.kill()
            self._process.join()


def _serve(connection: Connection, function: Callable[[Any], str]) -> None:
    """Answer tasks until the other end closes. Ctrl-C in the terminal is for the parent, which then stops this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            connection.send(function(connection.recv()))


def _end_with_parent() -> None:
    """End this process when its parent is gone, however that ended; on SIGTERM a training run writes its checkpoint."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _shared_cores(workers: int) -> Iterator[None]:
    """Give processes that start meanwhile their part of the cores, unless the user has set their number of threads."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // workers))
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]

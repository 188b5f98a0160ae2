"""Worker processes: long-lived, replaced when they die, killed at a deadline, and gone when their parent is.

Workers are spawned, since a forked child of a process that has used torch's threads or a GPU may hang. A request is pickled on
its way to the worker; a reply is JSON, since a worker that decoded a hostile file must not send pickles.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from patchprint.common.signals import sigterm_as_exit

Task = TypeVar("Task")
_PATIENCE = 60  # seconds in which a task that is asked to stop may write its checkpoint


class WorkerDiedError(Exception):
    """A worker process ended with ``code`` while it had a request."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"its process ended with exit code {code}")
        self.code = code


class Worker:
    """A process that answers requests one after the other; once it has died, the next request starts another.

    Args:
        create: called in the process, with ``arguments``; returns the function that answers requests.
    """

    def __init__(self, create: Callable[..., Callable[[Any], Any]], *arguments: Any) -> None:
        self._create, self._arguments = create, arguments
        self._process: Any = None
        self._is_ready = False
        self.is_busy = False
        self.connection: Connection

    def start(self) -> None:
        """Start the process if none is alive, ahead of the first request."""
        if self._process is not None and self._process.is_alive():
            return
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, self._create, self._arguments))
        self._process.start()
        theirs.close()  # so that the death of the process closes the pipe
        self._is_ready = False

    def send(self, request: Any) -> None:
        """Send a request; `receive` returns the reply."""
        self.start()
        self.is_busy = True
        with contextlib.suppress(OSError):  # the process died meanwhile, as `receive` says
            self.connection.send(request)

    def has_reply(self) -> bool:
        """Whether `receive` will not wait, once the connection is readable; the first message only reports the start."""
        if not self._is_ready:
            with contextlib.suppress(EOFError, ConnectionError):
                self.connection.recv_bytes()
                self._is_ready = True
        return not self._is_ready or self.connection.poll()

    def receive(self, seconds: float | None = None) -> Any:
        """Return the reply to the last request.

        Args:
            seconds: time that the request may still take; the start of the process does not count.

        Raises:
            TimeoutError: it took longer; the process was killed.
            WorkerDiedError: the process died.
        """
        try:
            if not self._is_ready:
                self.connection.recv_bytes()
                self._is_ready = True
            if seconds is not None and not self.connection.poll(max(seconds, 0)):
                self.stop()
                raise TimeoutError(f"the request took longer than {seconds:g} seconds")
            reply = json.loads(self.connection.recv_bytes())
            self.is_busy = False
            return reply
        except (EOFError, ConnectionError):
            self._process.join(1)  # its own exit code is of interest
            process = self._process
            self.stop()
            raise WorkerDiedError(process.exitcode) from None

    def ask_to_stop(self) -> None:
        """Close an idle process; send SIGTERM to a busy one, on which a training run writes its checkpoint."""
        if self._process is not None and self.is_busy:
            self._process.terminate()
        elif self._process is not None:
            self.connection.close()

    def stop(self, patience: float = 0.0) -> None:
        """End the process, which is killed after ``patience`` seconds."""
        if self._process is not None:
            self._process.join(patience)
            self._process.kill()
            self._process.join()
            self.connection.close()
            self._process, self.is_busy = None, False


def run_tasks(function: Callable[[Task], str], tasks: Iterable[Task], workers: int) -> Iterator[tuple[Task, str]]:
    """Yield every task with what ``function`` returns for it, as they finish, on so many workers.

    A worker that dies takes only its task with it, whose answer says so. One worker is this process. Where the caller is
    stopped, by SIGTERM too, so are the workers.
    """
    waiting = deque(tasks)
    if workers == 1:
        for task in waiting:
            yield task, function(task)
        return
    pool = [Worker(_same, function) for _ in range(min(workers, len(waiting)))]
    in_hand: dict[Worker, Task] = {}
    with sigterm_as_exit(), _shared_cores(workers):
        try:
            for worker in pool:
                in_hand[worker] = waiting.popleft()
                worker.send(in_hand[worker])
            while busy := {worker.connection: worker for worker in in_hand}:
                for connection in wait(list(busy)):
                    worker = busy[connection]  # type: ignore[index]
                    if not worker.has_reply():
                        continue
                    task = in_hand.pop(worker)
                    try:
                        answer = worker.receive()
                    except WorkerDiedError as error:
                        answer = str(error)
                    if waiting:
                        in_hand[worker] = waiting.popleft()
                        worker.send(in_hand[worker])
                    yield task, answer
        finally:
            for worker in pool:
                worker.ask_to_stop()
            for worker in pool:
                worker.stop(_PATIENCE)


def _same(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function


def _serve(connection: Connection, create: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...]) -> None:
    """Answer requests until the other end closes. Ctrl-C in the terminal is for the parent, which then stops this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):
        answer = create(*arguments)
        connection.send_bytes(b"ready")
        while True:
            connection.send_bytes(json.dumps(answer(connection.recv())).encode())


def _end_with_parent() -> None:
    """End this process when its parent is gone, however that ended; SIGTERM lets a training run write its checkpoint."""
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

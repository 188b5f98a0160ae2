"""Worker processes: long-lived, replaced when they die, killed at a deadline, and gone when their parent is.

Workers are spawned, since a forked child of a process that has used torch's threads or a GPU may hang. A request is pickled on
its way to the worker. A reply is JSON where the worker reads files of strangers, since a hostile one must not send pickles.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from patchprint.common.signals import sigterm_as_exit

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_PATIENCE = 60  # seconds in which a task that is asked to stop may write its checkpoint


class WorkerDiedError(Exception):
    """A worker process ended with ``code``, with a request in hand, or before it was ready for one."""

    def __init__(self, code: int | None, was_ready: bool) -> None:
        super().__init__(f"its process ended with exit code {code}")
        self.code, self.was_ready = code, was_ready


class Worker:
    """A process that answers requests one after the other; once it has died, the next request starts another.

    Args:
        create: called in the process, with ``arguments``; returns the function that answers requests.
        pickled: replies are pickled, which only a process that is trusted may send; else JSON.
    """

    def __init__(self, create: Callable[..., Callable[[Any], Any]], *arguments: Any, pickled: bool = False) -> None:
        self._create, self._arguments, self._pickled = create, arguments, pickled
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
        self._process = spawn.Process(target=_serve, args=(theirs, self._create, self._arguments, self._pickled))
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
            reply = self.connection.recv() if self._pickled else json.loads(self.connection.recv_bytes())
            self.is_busy = False
            return reply
        except (EOFError, ConnectionError):
            self._process.join(1)  # its own exit code is of interest
            process = self._process
            self.stop()
            raise WorkerDiedError(process.exitcode, self._is_ready) from None

    def ask_to_stop(self) -> None:
        """Close an idle process; send SIGTERM to a busy one, on which a training run writes its checkpoint."""
        if self._process is not None and self.is_busy:
            self._process.terminate()
        elif self._process is not None:
            self.connection.close()

    def stop(self, patience: float = 0.0) -> None:
        """End the process, which is killed after ``patience`` seconds."""
        if self._process is not None:
            try:
                self._process.join(patience)
            finally:  # also where Ctrl-C is pressed again: Python would wait at its end for a process that is left
                self._process.kill()
                self._process.join()
                self.connection.close()
                self._process, self.is_busy = None, False


def run_tasks(
    create: Callable[[], Callable[[Task], Answer]], tasks: Sequence[Task], workers: int
) -> Iterator[tuple[int, Answer | WorkerDiedError]]:
    """Yield the number of each task with its answer, as they finish, on so many workers.

    A worker that dies takes only its task with it, whose answer is the error. Where the caller is stopped, by SIGTERM too, so
    are the workers.

    Args:
        create: called in each worker; returns the function that answers a task.
    """
    waiting = deque(enumerate(tasks))
    pool = [Worker(create, pickled=True) for _ in range(min(workers, len(waiting)))]
    in_hand: dict[Worker, int] = {}

    def send(worker: Worker) -> None:
        in_hand[worker], task = waiting.popleft()
        worker.send(task)

    with sigterm_as_exit(), _shared_cores(workers):
        try:
            for worker in pool:
                send(worker)
            while busy := {worker.connection: worker for worker in in_hand}:
                for connection in wait(list(busy)):
                    worker = busy[connection]  # type: ignore[index]
                    if not worker.has_reply():
                        continue
                    number = in_hand.pop(worker)
                    try:
                        answer = worker.receive()
                    except WorkerDiedError as error:
                        answer = error
                    if waiting:
                        send(worker)
                    yield number, answer
        finally:
            with contextlib.ExitStack() as stops:
                for worker in pool:
                    worker.ask_to_stop()
                    stops.callback(worker.stop, _PATIENCE)


def _serve(
    connection: Connection, create: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...], pickled: bool
) -> None:
    """Answer requests until the other end closes. Ctrl-C in the terminal is for the parent, which then stops this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):
        answer = create(*arguments)
        connection.send_bytes(b"ready")
        while True:
            reply = answer(connection.recv())
            connection.send(reply) if pickled else connection.send_bytes(json.dumps(reply).encode())


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

"""A worker process that runs one request at a time; killed at a deadline, restarted when it dies.

Untrusted images are decoded there, so a decoder that crashes or hangs fails its own request only.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from patchprint.common.errors import UserError
from patchprint.common.progress import note
from patchprint.web.limits import Limits, RequestError


class Worker:
    """Call methods of an object that lives in another process.

    ``with Worker(limits, make, *arguments) as worker: worker.call("match", images, settings)``. Results come back as JSON,
    because unpickling data from a process that decodes untrusted images would trust it.

    Args:
        limits: deadline of a call, and how many calls may wait.
        make: called with ``arguments`` in the process; returns the object.
    """

    def __init__(self, limits: Limits, make: Callable[..., object], *arguments: object) -> None:
        self._limits, self._make = limits, (make, *arguments)
        self._places = threading.Semaphore(1 + int(limits.waiting))
        self._turn = threading.Lock()
        self._is_ready = self._is_stopped = False

    def __enter__(self) -> Worker:
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_stopped = True  # a waiting call reports this instead of a crash
        self._process.kill()
        self._process.join()

    def call(self, method: str, *arguments: object) -> Any:
        """Call a method and return its result. Waiting for other calls counts toward the deadline.

        Raises:
            RequestError: too many calls wait, the deadline passed, the process died, or the method raised an error.
        """
        seconds = self._limits.seconds
        deadline = time.monotonic() + seconds
        if not self._places.acquire(blocking=False):
            raise RequestError("too many requests at once; try again in a moment", 429)
        try:
            if not self._turn.acquire(timeout=seconds):
                raise RequestError(f"others were served for {seconds:g} seconds; try again in a moment", 429)
            try:
                reply = self._ask((method, arguments), deadline)
            finally:
                self._turn.release()
        finally:
            self._places.release()
        if "error" in reply:
            raise RequestError(reply["error"], reply["status"])
        return reply["result"]

    def _ask(self, question: tuple[str, tuple[object, ...]], deadline: float) -> dict[str, Any]:
        if not self._process.is_alive() and not self._is_stopped:  # died while idle
            self._restart()
        try:
            if not self._is_ready:  # the start takes seconds, which do not count
                started = time.monotonic()
                self._connection.recv_bytes()
                deadline += time.monotonic() - started
                self._is_ready = True
            self._connection.send(question)
            if self._connection.poll(max(deadline - time.monotonic(), 0)):
                return json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):  # the process died
            if self._is_stopped:
                raise RequestError("the server is being stopped", 503) from None
            self._restart()
            raise RequestError(
                "the process that worked on these images died; try others, and report this", 500
            ) from None
        self._restart()
        seconds = f"{self._limits.seconds:g} seconds"
        raise RequestError(
            f"this took longer than {seconds} and was given up; use smaller images or fewer keypoints", 503
        )

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, child = context.Pipe()
        self._process = context.Process(target=_answer_calls, args=(child, *self._make), daemon=True)
        self._process.start()
        child.close()  # so that reading fails when the process dies
        self._is_ready = False

    def _restart(self) -> None:
        self._process.join(0.1)  # if it died by itself, report the exit code
        if self._process.exitcode is not None:
            note(f"a worker ended with exit code {self._process.exitcode}; a new one takes its place")
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._start()


def _answer_calls(connection: Connection, make: Callable[..., object], *arguments: object) -> None:
    """Run calls until the parent closes the connection or dies. Ctrl-C is handled by the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        target = make(*arguments)
        connection.send_bytes(b"ready")
        while True:
            method, given = connection.recv()
            connection.send_bytes(json.dumps(_reply(getattr(target, method), given)).encode())


def _reply(function: Callable[..., object], arguments: tuple[object, ...]) -> dict[str, object]:
    try:
        return {"result": function(*arguments)}
    except UserError as error:
        return {"error": str(error), "status": getattr(error, "status", 400)}
    except Exception:
        traceback.print_exc()
        return {
            "error": "this is a fault of patchprint; the terminal of the server says more, please report it",
            "status": 500,
        }

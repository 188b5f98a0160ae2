"""Processes that answer questions, each with a time limit: one whose time is over is ended, and its work with it.

A process is asked over a pipe, with JSON and the bytes of the photos; nothing is unpickled that it answers. Whatever a photo
makes a decoder do, it does it there, and the server lives on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import multiprocessing
import os
import queue
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError
from patchprint.common.progress import note
from patchprint.matching.image_pair import MatchSettings
from patchprint.networks.engines import AUTO
from patchprint.web import limits
from patchprint.web.limits import FaultError, Limits, OutOfTimeError, RefusedError, TooBusyError
from patchprint.web.looking import Desk, Photo, Spot


@dataclass(frozen=True)
class Setup:
    """What a process needs to know to answer questions; its temporary files lie in the ``folder``."""

    models: Mapping[str, str]
    limits: Limits
    folder: Path
    device: str = "auto"
    engine: str = AUTO


class Workers:
    """Answers questions in other processes, so many at a time; those that wait are counted, too.

    ``with Workers(setup) as workers: workers.ask("match", photos, settings)`` gives what `Desk.match` gives, and raises
    RefusedError or UserError with a sentence for whoever asked.
    """

    def __init__(self, setup: Setup, count: int = 1) -> None:
        self._setup, self._count = setup, count
        self._lock = threading.Lock()
        self._present = 0  # questions that are being answered or wait
        self._all: list[_Worker] = []
        self._idle: queue.Queue[_Worker] = queue.Queue()

    def __enter__(self) -> Workers:
        self._all = [_Worker(self._setup) for _ in range(self._count)]
        for worker in self._all:
            self._idle.put(worker)
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._all:
            worker.stop()

    def ask(self, task: str, photos: Sequence[Photo], settings: MatchSettings, **more: Any) -> dict[str, Any]:
        """The answer to a task, the name of a method of `Desk`; its time begins now, also where it has to wait."""
        most = self._setup.limits.seconds
        deadline = time.monotonic() + most
        with self._lock:
            if self._present >= self._count + self._setup.limits.waiting:
                raise TooBusyError("too many ask at once; try again in a moment")
            self._present += 1
        try:
            try:
                worker = self._idle.get(timeout=most)
            except queue.Empty:
                raise TooBusyError(f"others were served for {most:g} seconds; try again in a moment") from None
            try:
                question = {"task": task, "settings": dataclasses.asdict(settings), **more}
                return worker.ask(question, photos, deadline - time.monotonic(), most)
            finally:
                self._idle.put(worker)
        finally:
            with self._lock:
                self._present -= 1


class _Worker:
    """One process; a new one takes its place where it was ended or died."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._is_stopped = False
        self._start()

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_answer, args=(theirs, self._setup), daemon=True)
        self._process.start()
        theirs.close()  # so that its end is seen here
        self._is_ready = False

    def ask(self, question: dict[str, Any], photos: Sequence[Photo], seconds: float, most: float) -> dict[str, Any]:
        if not self._process.is_alive():  # not by these photos
            note(f"a worker ended with exit code {self._replace()}; a new one takes its place")
        question["names"] = [photo.name for photo in photos]
        try:
            if not self._is_ready:  # to start takes seconds, which are not the question's
                self._connection.recv_bytes()
                self._is_ready = True
            self._connection.send_bytes(json.dumps(question).encode())
            for photo in photos:
                self._connection.send_bytes(photo.data)
            if not self._connection.poll(max(seconds, 0)):
                self._replace()
                raise OutOfTimeError(
                    f"this took longer than {most:g} seconds and was given up; take smaller photos or fewer keypoints"
                )
            reply = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):  # the other end is gone
            if self._is_stopped:
                raise TooBusyError("the server is being stopped") from None
            note(f"a worker ended with exit code {self._replace()}; a new one takes its place")
            raise FaultError("the process that worked on these photos died; try others, and report this") from None
        if "error" in reply:
            kind = getattr(limits, reply["kind"], UserError)
            raise kind(reply["error"])
        return reply["answer"]

    def _replace(self) -> int | None:
        """Start anew; the exit code of the old process."""
        self._process.join(0.1)  # where it died by itself, how is of interest
        self._process.kill()
        self._process.join()
        self._connection.close()
        code = self._process.exitcode
        self._start()
        return code

    def stop(self) -> None:
        """End it, also while it is asked."""
        self._is_stopped = True
        self._process.kill()
        self._process.join()


def _answer(connection: Connection, setup: Setup) -> None:
    """Question after question, until the other end closes. The terminal's Ctrl-C is for the parent, who then closes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # OpenCV's own limit, which holds for what a header hides from ours.
    os.environ["OPENCV_IO_MAX_IMAGE_PIXELS"] = str(int(setup.limits.megapixels * 1e6))
    tempfile.tempdir = str(setup.folder)
    with contextlib.suppress(EOFError, BrokenPipeError):
        desk = Desk(setup.models, setup.limits, setup.device, setup.engine)
        connection.send_bytes(b"ready")
        while True:
            question = json.loads(connection.recv_bytes())
            photos = [Photo(name, connection.recv_bytes()) for name in question.pop("names")]
            connection.send_bytes(json.dumps(_reply(desk, question, photos)).encode())


def _reply(desk: Desk, question: dict[str, Any], photos: list[Photo]) -> dict[str, Any]:
    try:
        tasks: dict[str, Callable[..., dict[str, Any]]] = {"match": desk.match, "show": desk.show, "look": desk.look}
        task = tasks[question.pop("task")]
        settings = MatchSettings(**question.pop("settings"))
        if "spot" in question:
            question["spot"] = Spot(**question["spot"])
        return {"answer": task(photos, settings, **question)}
    except RefusedError as error:
        return {"error": str(error), "kind": type(error).__name__}
    except UserError as error:
        return {"error": str(error), "kind": "UserError"}
    except Exception:
        traceback.print_exc()
        return {
            "error": "this is a fault of patchprint; the terminal in which it serves says more, please report it",
            "kind": "FaultError",
        }

"""Questions to other processes: answers and refusals come back, time is limited, a process that died is replaced."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from patchprint.common.errors import UserError
from patchprint.matching.image_pair import MatchSettings
from patchprint.web import workers
from patchprint.web.limits import FaultError, Limits, OutOfTimeError, TooBusyError, TooLargeError
from patchprint.web.looking import Photo
from patchprint.web.workers import Setup, Workers

SETTINGS = MatchSettings("sift", max_keypoints=100)


@pytest.fixture(scope="module")
def pair(photos: tuple[Path, Path]) -> Sequence[Photo]:
    return [Photo(path.name, path.read_bytes()) for path in photos]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    folder = tmp_path_factory.mktemp("worker")
    with Workers(Setup({"sift": "sift"}, Limits(megapixels=1), folder, "cpu")) as made:
        yield made
    assert list(folder.iterdir()) == []


def process_of(running: Workers) -> int:
    """Its number, and that it is there."""
    worker = running._idle.get(timeout=60)
    running._idle.put(worker)
    os.kill(worker._process.pid, 0)
    return worker._process.pid


@pytest.mark.slow
def test_answers_and_refusals(running: Workers, pair: Sequence[Photo], bad_files: dict[str, Path]) -> None:
    assert running.ask("match", pair, SETTINGS)["matches"] > 10
    assert running.ask("look", pair, SETTINGS, spot={"number": 3}, baseline="sift")["keypoint"] == 3
    with pytest.raises(UserError, match="did you mean dog"):
        running.ask("match", pair, MatchSettings("sift", detector="dgo"))
    huge = bad_files["huge.png has 10000x10000 pixels"]
    with pytest.raises(TooLargeError, match="the limit is 1; make it smaller"):
        running.ask("match", [pair[0], Photo("huge.png", huge.read_bytes())], SETTINGS)
    with pytest.raises(FaultError, match="this is a fault of patchprint"):
        running.ask("match", pair, SETTINGS, nothing="known")
    assert running.ask("match", pair, SETTINGS)["matches"] > 10


@pytest.mark.slow
def test_work_whose_time_is_over_is_ended(running: Workers, pair: Sequence[Photo]) -> None:
    before = process_of(running)
    worker = running._idle.get()
    much = MatchSettings("sift", max_keypoints=5000)
    with pytest.raises(OutOfTimeError, match="took longer than 0 seconds and was given up"):
        worker.ask({"task": "match", "settings": vars(much)}, pair, 0, 0)
    running._idle.put(worker)
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    # The new process still starts when this one is killed, so that it dies with a question.
    killer = threading.Timer(0.3, os.kill, (process_of(running), signal.SIGKILL))
    killer.start()
    with pytest.raises(FaultError, match="died"):
        running.ask("match", pair, SETTINGS)
    # One that died while nobody asked is replaced without a word to whoever asks next.
    os.kill(process_of(running), signal.SIGKILL)
    time.sleep(0.3)
    assert running.ask("match", pair, SETTINGS)["matches"] > 10


def test_whoever_waits_at_the_end_is_told(pair: Sequence[Photo], tmp_path: Path) -> None:
    told: list[str] = []

    def ask() -> None:
        with pytest.raises(TooBusyError) as error:
            running.ask("match", pair, SETTINGS)
        told.append(str(error.value))

    started = time.monotonic()
    with Workers(Setup({"sift": "sift"}, Limits(), tmp_path, "cpu")) as running:
        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.2)
        (worker,) = running._all
    asking.join(10)
    assert told == ["the server is being stopped"] and not worker._process.is_alive()
    assert time.monotonic() - started < 10  # not the minute that a question may take


class Slow:
    """A worker that answers when it is let."""

    def __init__(self, setup: Setup) -> None:
        self.may = threading.Event()

    def ask(self, question: dict, photos: Any, seconds: float, most: float) -> dict:
        assert self.may.wait(10)
        return {"task": question["task"]}

    def stop(self) -> None:
        pass


def test_more_than_may_wait_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_Worker", Slow)
    setup = Setup({}, Limits(waiting=2), Path())
    answers: list[Any] = []

    def ask(running: Workers) -> None:
        try:
            answers.append(running.ask("match", [], SETTINGS))
        except TooBusyError as error:
            answers.append(str(error))

    with Workers(setup) as running:
        (slow,) = running._idle.queue
        asking = [threading.Thread(target=ask, args=(running,)) for _ in range(5)]
        for thread in asking:
            thread.start()
        while len(answers) < 2:
            time.sleep(0.01)
        slow.may.set()
        for thread in asking:
            thread.join()
    assert answers[:2] == ["too many ask at once; try again in a moment"] * 2
    assert answers[2:] == [{"task": "match"}] * 3


def test_who_waits_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_Worker", Slow)
    with Workers(Setup({}, Limits(seconds=0.05), Path())) as running:
        slow = running._idle.get()
        with pytest.raises(TooBusyError, match=r"others were served for 0\.05 seconds"):
            running.ask("match", [], SETTINGS)
        running._idle.put(slow)

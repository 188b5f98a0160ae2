"""Tasks in processes: all are answered, a process that dies takes one task with it, and stopping leaves none behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from patchprint.studies import _workers


def answer(task: int) -> str:
    """Run in the workers: what a task gives; the unlucky one takes its process with it."""
    if task == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{task} in {os.getpid()} {os.environ.get('OMP_NUM_THREADS')}"


def note_and_wait(path: Path) -> str:
    path.write_text("begun")
    signal.pause()
    return "never"


def test_one_job_is_done_here() -> None:
    answers = list(_workers.each(answer, [1, 2], 1))
    assert [task for task, _ in answers] == [1, 2]
    assert {words.split()[2] for _, words in answers} == {str(os.getpid())}


@pytest.mark.slow
def test_processes_are_used_again_and_survive_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    answers = dict(_workers.each(answer, [1, 2, 13, 3, 4, 5], 2))
    assert answers.pop(13) == "its process ended with exit code -9"
    assert [words.split()[0] for _, words in sorted(answers.items())] == ["1", "2", "3", "4", "5"]
    processes = {words.split()[2] for words in answers.values()}
    assert str(os.getpid()) not in processes
    assert len(processes) <= 3
    assert all(1 <= int(words.split()[3]) <= os.cpu_count() / 2 + 1 for words in answers.values())
    assert "OMP_NUM_THREADS" not in os.environ
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_stopping_ends_the_processes(tmp_path: Path) -> None:
    """A task that never ends is in hand when the caller goes away, as on Ctrl-C."""
    tasks = [tmp_path / "one", tmp_path / "two"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever tests before this one left
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in _workers.each(note_and_wait, _interrupted(tasks), 2):
                pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert multiprocessing.active_children() == []


def _interrupted(tasks: list[Path]) -> list[Path]:
    """Ctrl-C once the first task is in hand."""
    import threading
    import time

    def press() -> None:
        while not tasks[0].exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    return tasks

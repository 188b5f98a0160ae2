"""Worker processes: all tasks are answered, one that dies takes one task with it, and none is left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from patchprint.common.processes import WorkerDiedError, run_tasks


def answering() -> Callable[[int], str]:
    """Run in the workers; task 13 takes its process with it."""

    def answer(task: int) -> str:
        if task == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{task} in {os.getpid()} {os.environ.get('OMP_NUM_THREADS')}"

    return answer


def note_and_wait(path: Path) -> str:
    path.write_text(str(os.getpid()))
    signal.pause()
    return "never"


def ignore_sigterm() -> Callable[[Path], str]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return note_and_wait


def waiting() -> Callable[[Path], str]:
    return note_and_wait


@pytest.mark.slow
def test_workers_are_used_again_and_survive_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    answers = dict(run_tasks(answering, [1, 2, 13, 3, 4, 5], 2))
    died = answers.pop(2)
    assert isinstance(died, WorkerDiedError) and died.was_ready and str(died) == "its process ended with exit code -9"
    assert [words.split()[0] for _, words in sorted(answers.items())] == ["1", "2", "3", "4", "5"]
    processes = {words.split()[2] for words in answers.values()}
    assert str(os.getpid()) not in processes
    assert len(processes) <= 3
    assert all(1 <= int(words.split()[3]) <= os.cpu_count() / 2 + 1 for words in answers.values())
    assert "OMP_NUM_THREADS" not in os.environ
    assert multiprocessing.active_children() == []


@pytest.mark.slow
@pytest.mark.parametrize(("create", "presses"), [(waiting, 1), (ignore_sigterm, 3)])
def test_stopping_ends_the_workers(create: Callable[[], Callable[[Path], str]], presses: int, tmp_path: Path) -> None:
    """Tasks that never end are in hand on Ctrl-C, and where they do not stop by themselves, it is pressed for each again."""
    tasks = [tmp_path / "one", tmp_path / "two"]

    def press() -> None:
        while not all(task.exists() for task in tasks):
            time.sleep(0.05)
        for _ in range(presses):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever tests before this one left
    threading.Thread(target=press, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in run_tasks(create, tasks, 2):
                pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert multiprocessing.active_children() == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(how: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1].split(':')\n"
        "from pathlib import Path\n"
        "from common.test_processes import waiting\n"
        "from patchprint.common.processes import run_tasks\n"
        "if __name__ == '__main__': list(run_tasks(waiting, [Path(each) for each in sys.argv[2:]], 2))\n"
    )
    (tmp_path / "parent.py").write_text(code)
    tasks = [tmp_path / "one", tmp_path / "two"]
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "parent.py", ":".join(sys.path), *tasks], stderr=subprocess.DEVNULL
    )
    try:
        workers = [_process_in(task) for task in tasks]
        parent.send_signal(how)
        parent.wait(60)
        deadline = time.monotonic() + 30
        while any(_is_alive(worker) for worker in workers) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(_is_alive(worker) for worker in workers)
    finally:
        parent.kill()
        parent.wait()


def _process_in(path: Path) -> int:
    while not path.exists() or not path.read_text():
        time.sleep(0.05)
    return int(path.read_text())


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

"""What Windows and macOS lack is taken away here: modules, functions, characters of the console, names of files."""

import errno
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import cv2
import pytest

from patchprint import cli
from patchprint.common import files, provenance
from patchprint.interop import colmap_subprocess
from patchprint.interop.images import find_name_problem, list_images
from support.checkout import environment
from support.known_images import texture

# Foreign packages are imported first: what they need of Linux is their own concern.
_WITHOUT = """
import os, select, signal, sys, mmap
import cv2, h5py, safetensors, torch, tqdm, tyro
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for module, names in (
    (select, "poll epoll"), (signal, "SIGHUP SIGKILL SIGUSR1 SIGALRM setitimer"), (mmap, "MADV_RANDOM"),
    (os, "fork register_at_fork sched_getaffinity sysconf getuid geteuid statvfs O_NONBLOCK O_DIRECTORY killpg getpgid"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
opened = os.open
def open_file(path, flags, *mode, **place):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, flags, *mode, **place)
os.open = open_file
sys.platform = "win32"
from patchprint.common import files
files.os = type("Windows", (), {**{name: getattr(os, name) for name in dir(os) if name[0] != "_"}, "name": "nt"})
from patchprint import cli
codes = [cli.main(command) for command in __import__("json").loads(sys.argv[1])]
sys.stdout.flush()
sys.exit(max(codes))
"""


def run_without(commands: list[list[str]], folder: Path) -> str:
    """Run commands in a process that has only what Windows has, with the console of western Europe."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, json.dumps(commands)],
        capture_output=True,
        cwd=folder,
        env={**environment(), "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0, done.stderr.decode("cp1252")
    return done.stdout.decode("cp1252")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "снимки").mkdir()
    for number in (1, 2):
        _, data = cv2.imencode(".png", texture(100, 120, seed=3)[number:])
        (tmp_path / "снимки" / f"вид-{number}.png").write_bytes(data.tobytes())
    return tmp_path


def test_describing_and_matching_without_what_windows_lacks(images: Path) -> None:
    few = ["--model", "patchprint.tiny", "--max-keypoints", "80", "--engine", "float32"]
    pair = ["снимки/вид-1.png", "снимки/вид-2.png"]
    said = run_without(
        [
            ["match", *pair, *few, "--out", "совпадения.h5", "--json"],
            ["describe", "снимки", "--out", "features", *few],
            ["match", "features", "--out", "all.csv"],
        ],
        images,
    )
    found, _ = json.JSONDecoder().raw_decode(said)
    assert len(found["indices"]) > 20
    assert (images / "all.csv").read_text("utf-8").count("вид-2.png") > 20 and (images / "совпадения.h5").is_file()


def test_what_a_console_cannot_show_is_escaped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = open(os.devnull, "w", encoding="cp1252")  # noqa: SIM115 - closed below
    monkeypatch.setattr(sys, "stdout", stream)
    with stream, cli._streams():
        for as_json in (True, False):
            token = cli._as_json.set(as_json)
            cli.emit({"name": "вид"}, "вид │ \U0001f600")
            cli._as_json.reset(token)


@pytest.mark.parametrize(
    ("error", "is_gone"),
    [
        (OSError(errno.EINVAL, "Invalid argument"), True),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), True),
        (OSError(errno.EINVAL, "Invalid argument", "a.png"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
    ],
)
def test_a_closed_pipe_without_poll(error: OSError, is_gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "poll")
    done = []
    monkeypatch.setattr(os, "dup2", lambda *given: done.append(given))
    monkeypatch.setattr(sys, "stdout", open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - closed with its process
    assert cli._reader_is_gone(error) == is_gone == bool(done)


def test_memory_is_not_recorded_where_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "resource", None)
    assert "peak_mib" not in provenance.run_info()


def test_names_that_windows_has_no_files_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bad = ["aux.jpg", "a/NUL", "com1.tar.png", "a:b.png", "what?.png", "end.", "end /a.png", "a|b.png"]
    good = ["auxiliary.jpg", "a/con-1.png", "com10.png", "lpt.png", "a b.png", "v1.2.png"]
    assert [name for name in [*bad, *good] if find_name_problem(name)] == []
    cv2.imwrite(str(tmp_path / "aux.png"), texture(40, 40))
    assert list_images(tmp_path) == ["aux.png"]
    monkeypatch.setattr("patchprint.interop.images.os", _Windows())
    assert [name for name in [*bad, *good] if find_name_problem(name)] == bad


class _Windows:
    """The module os, as it calls itself there."""

    name = "nt"

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def test_files_are_flushed_as_windows_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "os", _Windows())
    monkeypatch.setattr(files, "fcntl", None)
    opened: list[tuple[object, int]] = []
    real = os.open
    monkeypatch.setattr(
        os,
        "open",
        lambda path, flags, *mode, **place: opened.append((path, flags)) or real(path, flags, *mode, **place),
    )
    with files.atomic_folder(tmp_path / "made", "a test") as folder:
        files.write_text(folder / "a.txt", "a")
    files.write_text(tmp_path / "b.txt", "b")
    flushed = [(path, flags) for path, flags in opened if isinstance(path, Path)]
    assert flushed and all(flags == os.O_RDWR and not path.is_dir() for path, flags in flushed if path.exists())
    assert (tmp_path / "made" / "a.txt").read_text() == "a" and not list(tmp_path.glob("*.lock"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a child outlives its parent there")
def test_colmap_ends_with_its_parent_where_the_system_sends_no_signal(tmp_path: Path) -> None:
    """The grandchild watches the number of its parent, which changes when that is gone."""
    place = str(Path(colmap_subprocess.__file__).parent)
    watch = (
        f"import os, sys; sys.path.insert(0, {place!r}); import colmap_subprocess as program\n"
        "parent = os.getppid(); print(os.getpid(), flush=True); program._end_with_parent(parent)"
    )
    start = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-P', '-c', {watch!r}]); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as said:
        child = int(said.readline())
        parent.kill()
        parent.wait()
        until = time.monotonic() + 10
        while _is_alive(child) and time.monotonic() < until:
            time.sleep(0.05)
    assert not _is_alive(child)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.is_file() or state.read_text().rpartition(")")[2].split()[0] != "Z"

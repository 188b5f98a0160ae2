"""Run commands and programs of patchprint in processes that may hang, crash or be killed.

One process imports the libraries once; each case is a fork of it, and so starts without the threads of a test run.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import patchprint

# Those that take long to import. Every training asks for torch's compiler.
_LIBRARIES = ("torch._dynamo", "cv2", "h5py", "pycolmap", "scipy.spatial", "skimage.data", "safetensors.torch", "tyro")
_COMMANDS = ("describe", "data", "train", "sfm")  # those that are run often


@dataclass(frozen=True, repr=False)
class Ended:
    """How a case ended: its exit code (the negative number of a signal, None where it had to be stopped), what it printed to
    stdout and stderr, and the most memory it took."""

    code: int | None
    said: str
    peak_mib: float

    def __repr__(self) -> str:
        if self.code is None:
            return "it never ended"
        if self.code < 0:
            return f"it ended with {signal.Signals(-self.code).name}"
        return f"exit code {self.code}, {(self.said.strip().splitlines() or ['nothing was said'])[-1][:300]}"

    @property
    def is_sentence(self) -> bool:
        """Whether it failed as it should: one sentence for the user and no traceback."""
        return self.code in (1, 2) and "Traceback" not in self.said and "patchprint: " in self.said


class CommandServer:
    """Runs cases; close it in the end."""

    def __init__(self, cache: Path) -> None:
        source = str(Path(patchprint.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "PATCHPRINT_CACHE": str(cache)}
        self._server = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )

    def command(self, words: str | list[str], folder: Path, first: str = "", **limits: float) -> Ended:
        """Run ``patchprint WORDS`` in ``folder``.

        Args:
            first: a program that is run before it, in the same process.
            limits: ``seconds`` after which it is stopped (60); ``file_bytes``, the size that no file may exceed.
        """
        return self._case(first, words.split() if isinstance(words, str) else words, folder, limits)

    def program(self, code: str, folder: Path, *arguments: object, **limits: float) -> Ended:
        """Run Python code, whose ``sys.argv[1:]`` are the arguments."""
        return self._case(
            f"import sys\nsys.argv[1:] = {[str(each) for each in arguments]!r}\n{code}", None, folder, limits
        )

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    def _case(self, code: str, words: list[str] | None, folder: Path, limits: dict[str, float]) -> Ended:
        assert self._server.stdin is not None and self._server.stdout is not None
        case = {"code": code, "words": words, "folder": str(folder), "seconds": 60, "file_bytes": None} | limits
        print(json.dumps(case), file=self._server.stdin, flush=True)
        return Ended(**json.loads(self._server.stdout.readline()))


def _serve() -> None:
    for name in (*_LIBRARIES, "patchprint.cli", *(f"patchprint.cli.{name}" for name in _COMMANDS)):
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


def _run(case: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            _work(case, said.fileno())
        ends, is_stopped = time.monotonic() + case["seconds"], False
        while not (ended := os.wait4(child, os.WNOHANG))[0]:
            if time.monotonic() > ends and not is_stopped:
                is_stopped = True
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.01)
        said.seek(0)
        text = said.read().decode(errors="replace")
    code = None if is_stopped else os.waitstatus_to_exitcode(ended[1])
    return {"code": code, "said": text, "peak_mib": round(ended[2].ru_maxrss / 1024, 1)}


def _work(case: dict[str, Any], output: int) -> NoReturn:
    code = 1
    try:
        os.setpgid(0, 0)  # what it starts is stopped with it
        for stream in (1, 2):
            os.dup2(output, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(case["folder"])
        if case["file_bytes"] is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(case["file_bytes"]),) * 2)
        exec(compile(case["code"], "case", "exec"), {"__name__": "case"})
        code = 0 if case["words"] is None else sys.modules["patchprint.cli"].main(case["words"])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()

"""Programs that the package runs in a process of their own, run in a fork: that takes milliseconds, and may crash as well.

They are forks of a small process that has imported what they need: forks of a process of tests, which may hold gigabytes, take
a tenth of a second each.
"""

from __future__ import annotations

import functools
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

_STREAMS = ("stdin", "stdout", "stderr")


def run_forked(program: list[str], *, input: bytes, timeout: float, **_: Any) -> subprocess.CompletedProcess[bytes]:
    """In place of ``subprocess.run([python, ..., FILE], input=...)``, with its outputs caught."""
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        fed, out, err = (Path(folder, name) for name in _STREAMS)
        fed.write_bytes(input)
        print(json.dumps([program[-1], folder, int(timeout)]), file=server.stdin, flush=True)
        code = int(server.stdout.readline())
        if code == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(program, timeout)
        return subprocess.CompletedProcess(program, code, out.read_bytes(), err.read_bytes())


@functools.cache
def _server() -> subprocess.Popen[str]:
    """It ends with this process, which alone can ask it for something."""
    return subprocess.Popen([sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _serve() -> None:
    import numpy as np  # noqa: F401  (before the forks, as is scipy)
    import scipy.io  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _work(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _work(file: str, folder: str, seconds: int) -> NoReturn:
    code = 1
    try:
        for number, name in enumerate(_STREAMS):
            os.dup2(os.open(Path(folder, name), os.O_RDWR | os.O_CREAT), number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        signal.alarm(seconds)
        runpy.run_path(file, run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()

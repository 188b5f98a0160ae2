"""Programs that the package runs in a process of their own, run in a fork: that takes milliseconds, and may crash as well."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from typing import Any, NoReturn

import numpy as np  # noqa: F401  (before the fork, as is scipy)
import scipy.io  # noqa: F401


def run_forked(program: list[str], *, input: bytes, timeout: float, **_: Any) -> subprocess.CompletedProcess[bytes]:
    """In place of ``subprocess.run([python, ..., FILE], input=...)``, with its outputs caught."""
    with tempfile.TemporaryFile() as fed, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        fed.write(input)
        fed.seek(0)
        child = os.fork()
        if child == 0:
            _work(program[-1], (fed.fileno(), out.fileno(), err.fileno()), timeout)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(program, timeout)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(program, code, out.read(), err.read())


def _work(file: str, streams: tuple[int, int, int], seconds: float) -> NoReturn:
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        signal.alarm(int(seconds))
        runpy.run_path(file, run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

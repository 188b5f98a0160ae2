"""``patchprint serve`` as a real process, and questions to it over plain HTTP."""

import argparse
import contextlib
import functools
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from support.checkout import TESTS, environment


@dataclass
class Served:
    """A server that runs: where, its process, what it wrote to stderr so far, where it keeps temporary files, and the record of
    other machines that it turned to (`support.audited`)."""

    address: str
    process: subprocess.Popen[str]
    stderr_lines: list[str]
    temporary: Path
    contacted: Path

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and answer, JSON where it is; the path goes out exactly as it is given."""
        place = urlsplit(self.address)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host="host" in (headers or {}))
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
            is_json = answer.getheader("Content-Type", "").startswith("application/json")
            return answer.status, json.loads(data) if is_json else data

    def post(self, path: str, a: Path, b: Path, **fields: object) -> tuple[int, Any]:
        """POST two images and settings."""
        body, kind = form({"image_a": a, "image_b": b, **fields})
        return self.ask("POST", path, body, {"Content-Type": kind})

    def match(self, a: Path, b: Path, **fields: object) -> tuple[int, Any]:
        """POST /api/match."""
        return self.post("/api/match", a, b, **fields)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal, and wait."""
        self.process.send_signal(number)
        return self.process.wait(20)


def curl(server: Served, words: list[str]) -> tuple[int, Any]:
    """What ``curl -F name=value ... ADDRESS`` asks, of this server instead of the one in the address."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-F", action="append", default=[], dest="fields")
    parser.add_argument("address")
    asked = parser.parse_args(words)
    path = urlsplit(asked.address).path
    if not asked.fields:
        return server.ask("GET", path)
    pairs = (field.partition("=") for field in asked.fields)
    values = {name: Path(value[1:]) if value.startswith("@") else value for name, _, value in pairs}
    body, kind = form(values)
    return server.ask("POST", path, body, {"Content-Type": kind})


@contextlib.contextmanager
def serving(folder: Path, *flags: str) -> Iterator[Served]:
    """A server at a free port, whose temporary files lie in ``folder``, until the end of the block."""
    temporary = folder / "temporary"
    temporary.mkdir()
    settings = environment(TMPDIR=str(temporary), AUDIT_LOG=str(folder / "contacted.txt"), AUDIT_ALLOWED="/")
    settings["PYTHONPATH"] = os.pathsep.join([str(TESTS / "support" / "audited"), settings["PYTHONPATH"]])
    command = [sys.executable, "-m", "patchprint", "serve", "--port", "0", *flags]
    # Below nohup SIGHUP is ignored, and so it would be by the server.
    heed = functools.partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings, cwd=folder, preexec_fn=heed)
    stderr_lines: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=stderr_lines.extend, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        until = time.monotonic() + 60
        while not (found := re.search(r"serving at (http://\S+)", "".join(stderr_lines))):
            assert process.poll() is None and time.monotonic() < until, f"it did not serve: {''.join(stderr_lines)}"
            time.sleep(0.05)
        yield Served(found[1], process, stderr_lines, temporary, folder / "contacted.txt")
    finally:
        process.kill()
        process.wait()
        reader.join(5)


def form(fields: dict[str, object]) -> tuple[bytes, str]:
    """Fields as multipart/form-data, files by their paths, and its content type."""
    parts = {
        name: (value.name, value.read_bytes()) if isinstance(value, Path) else (None, str(value))
        for name, value in fields.items()
    }
    request = requests.Request("POST", "http://localhost", files=parts).prepare()
    return request.body, request.headers["Content-Type"]

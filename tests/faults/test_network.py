"""Nothing that patchprint runs or imports reaches for the network, or writes outside of the folders that it was given."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from patchprint.benchmarks import BENCHMARKS
from patchprint.cli import SUBCOMMANDS
from patchprint.cli.train import TASKS
from patchprint.data.builders import BUILDERS
from patchprint.detectors import DETECTORS
from patchprint.networks import engines
from patchprint.storage import feature_formats
from support.checkout import ROOT, TESTS


def audited(program: list[str], folder: Path) -> tuple[str, list[str]]:
    """What a Python program prints, and what the audit of it and its children found; ``folder`` is what it may fill."""
    home, work, log, calls = (folder / name for name in ("home", "work", "log", "calls"))
    home.mkdir()
    work.mkdir()
    with tempfile.TemporaryDirectory() as temporary:  # the names of Ray's sockets must be short
        places = {
            "HOME": home,
            "TMPDIR": temporary,
            "PATCHPRINT_CACHE": home / ".cache" / "patchprint",
            "AUDIT_LOG": log,
            # Matplotlib makes an empty folder for its settings beside its cache.
            "AUDIT_ALLOWED": os.pathsep.join(map(str, (home / ".cache", home / ".config", work, temporary, "/dev"))),
            "PYTHONPATH": os.pathsep.join(map(str, (TESTS / "support" / "audited", ROOT / "src", TESTS))),
            "PYTHONDONTWRITEBYTECODE": 1,
            "OMP_NUM_THREADS": 1,
        }
        environment = {**os.environ, **{name: str(value) for name, value in places.items()}}
        command = [*_strace(calls), sys.executable, *program]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [path for path in home.iterdir() if path.name not in (".cache", ".config")] == []
    native = calls.read_text(errors="replace") if calls.exists() else ""
    return done.stdout, [*log.read_text().splitlines(), *connects_to_others(native)]


def _strace(calls: Path) -> list[str]:
    """The beginning of a command whose connections strace writes down, those of native code, too; nothing where it may not."""
    strace = ["strace", "--seccomp-bpf", "-f", "-qq", "-e", "trace=connect", "-e", "signal=none", "-o", str(calls)]
    if shutil.which("strace") and subprocess.run([*strace, "true"], capture_output=True, check=False).returncode == 0:
        return strace
    return []


def connects_to_others(calls: str) -> list[str]:
    """Addresses of other machines in what strace wrote."""
    found = re.findall(r'(?:inet_addr\(|inet_pton\(AF_INET6, )"(?:::ffff:)?([^"]+)"', calls)
    # To 8.8.8.8 Ray opens a UDP socket, over which nothing is sent, to learn the address of this machine.
    return sorted({f"connect {address}" for address in found if address != "8.8.8.8" and not is_own(address)})


def is_own(address: str) -> bool:
    """Whether an address is one of this machine: only these can be bound to."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as own:
        try:
            own.bind((address, 0))
        except OSError:
            return False
    return True


def test_the_audit_sees_what_it_should(tmp_path: Path) -> None:
    program = (
        "import socket, subprocess, sys\n"
        "look = 'import socket\\nsocket.getaddrinfo(chr(120) + \".invalid\", 80)'\n"
        "subprocess.run([sys.executable, '-c', look], stderr=subprocess.DEVNULL)\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0)\n"
        "try: s.connect(('192.0.2.77', 80))\n"
        "except OSError: pass\n"
        f"open({str(tmp_path / 'outside')!r}, 'w')\n"
        "open('inside', 'w')\n"
    )
    _, found = audited(["-c", program], tmp_path)
    found = [line for line in found if not line.startswith("connect ")]  # strace need not be there
    expected = ["getaddrinfo x.invalid", "connect ('192.0.2.77', 80)", f"open {tmp_path / 'outside'}"]
    assert [line.split(" by ")[0].removeprefix("socket.") for line in found] == expected


def test_what_strace_writes_is_understood() -> None:
    calls = (
        '7 connect(3, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("192.0.2.77")}, 16) = 0\n'
        '7 connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}, 16) = 0\n'
        '7 connect(3, {sa_family=AF_UNIX, sun_path="/var/run/nscd/socket"}, 110) = -1 ENOENT\n'
        '7 connect(3, {sa_family=AF_INET6, sin6_port=htons(1), inet_pton(AF_INET6, "::ffff:192.0.2.78", &sin6_addr)}, 28) = 0\n'
        '7 connect(3, {sa_family=AF_INET6, sin6_port=htons(1), inet_pton(AF_INET6, "2001:db8::1", &sin6_addr)}, 28) = 0\n'
    )
    assert connects_to_others(calls) == ["connect 192.0.2.77", "connect 192.0.2.78", "connect 2001:db8::1"]


@pytest.mark.slow
def test_h2_no_command_engine_or_package_reaches_for_the_network_or_writes_elsewhere(tmp_path: Path) -> None:
    said, found = audited([str(TESTS / "faults" / "every_command.py")], tmp_path)
    lines = said.splitlines()
    assert [line for line in lines if not line.startswith("done ")] == []
    assert [each for each in every_leaf() if not any(line.startswith(f"done {each}") for line in lines)] == []
    assert found == []


def every_leaf() -> list[str]:
    """Each command with what it is asked for, such as ``eval oxford``; and all else that is chosen by name."""
    nested = {
        "data": ["download", "info", *(f"build {kind}" for kind in BUILDERS)],
        "eval": ["--compare", *BENCHMARKS],
        "train": ["--list", "--resume", *TASKS],
    }
    commands = [f"{name} {each}".strip() for name in SUBCOMMANDS for each in nested.get(name, [""])]
    described = [f"describe views --out described-{name} " for name in DETECTORS]
    formats = [f"describe views --out {name}-file" for name in feature_formats.FORMATS]
    engine = [f"engine {name}" for name in engines.available(torch.device("cpu"))]
    return [*commands, *described, *formats, *engine, "import "]

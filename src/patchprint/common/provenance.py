"""Where a number comes from: command, version, machine, date, time and memory, as every result file records them."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import os
import platform
import resource
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import patchprint

_started = time.monotonic()


@dataclass(frozen=True)
class Result:
    """One measurement, as it is written to ``results/``; ``run`` comes from `record`."""

    benchmark: str
    settings: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    seed: int | None
    scores: dict[str, Any]
    run: dict[str, Any]
    schema: int = 1

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def record(
    benchmark: str,
    *,
    settings: dict[str, Any],
    scores: dict[str, Any],
    model: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    seed: int | None = None,
    started: float | None = None,
    command: str | None = None,
) -> Result:
    """A measurement of this process, with all that is known about where it comes from.

    Args:
        started: a time.monotonic() reading; without it, the process's age is taken.
        command: what to type to repeat it; without it, the command line of this process.
    """
    return Result(benchmark, settings, model or {}, data or {}, seed, scores, run_info(started, command))


def run_info(started: float | None = None, command: str | None = None) -> dict[str, Any]:
    """The ``run`` part of a Result; the arguments are those of ``record``."""
    seconds = time.monotonic() - (_started if started is None else started)
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    return {
        "command": command or _command(),
        "version": patchprint.__version__,
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        **({"gpu_peak_mib": round(torch.cuda.max_memory_allocated() / 2**20, 1)} if on_gpu else {}),
    }


def machine() -> dict[str, Any]:
    """Processor, cores, accelerator and library versions of this machine."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def sha256_of_file(path: str | Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_folder(path: str | Path) -> str:
    """Checksum of all files below a folder: names and contents, in sorted order, hidden files left out."""
    root = Path(path)
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*")):
        relative = file.relative_to(root)
        if file.is_file() and not any(part.startswith(".") for part in relative.parts):
            digest.update(f"{relative.as_posix()}\0{sha256_of_file(file)}\n".encode())
    return digest.hexdigest()


def _command() -> str:
    """Return the command line of this process, ``python -m`` included."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = [Path(sys.argv[0]).name] if spec is None else ["python", "-m", spec.name.removesuffix(".__main__")]
    return shlex.join([*program, *sys.argv[1:]])


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

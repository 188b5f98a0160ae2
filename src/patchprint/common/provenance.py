"""Where a number comes from: command, version, machine, date, time and memory, as every result file records them."""

import dataclasses
import datetime
import hashlib
import os
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch

import patchprint

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_started = time.monotonic()


class RunRecord(TypedDict):
    """Where, when and how a result was measured."""

    command: str
    version: str
    machine: dict[str, Any]
    date: str
    seconds: float
    peak_mib: NotRequired[float]  # not on Windows
    gpu_peak_mib: NotRequired[float]
    cache: NotRequired[dict[str, int]]


@dataclass(frozen=True)
class Result:
    """One measurement, as it is written to ``results/``.

    Attributes:
        settings: by name, those of the benchmark.
        model: name and sha256 of the model, with what else the command knows of it.
        data: path and sha256 of the data, likewise.
        scores: by name, as the benchmark defines them.
    """

    benchmark: str
    settings: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    scores: dict[str, Any] = field(default_factory=dict)
    run: RunRecord = field(default_factory=lambda: run_info())
    schema: int = 1

    def to_json(self) -> dict[str, Any]:
        """Convert to the object that is written to a file."""
        return dataclasses.asdict(self)


def record(benchmark: str, *, started: float | None = None, command: str | None = None, **fields: Any) -> Result:
    """Make the result of a measurement in this process; ``fields`` are those of `Result`, the others of `run_info`."""
    return Result(benchmark, run=run_info(started, command), **fields)


def run_info(started: float | None = None, command: str | None = None) -> RunRecord:
    """Collect the ``run`` part of a Result.

    Args:
        started: a time.monotonic() reading; without it, the process's age is taken.
        command: what to type to repeat it; without it, the command line of this process.
    """
    seconds = time.monotonic() - (_started if started is None else started)
    found: RunRecord = {
        "command": command or _command(),
        "version": patchprint.__version__,
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }
    if resource is not None:
        unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, others KiB
        found["peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["gpu_peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    return found


def machine() -> dict[str, Any]:
    """Describe this machine: processor, cores, accelerator and library versions."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def origin(runs: Sequence[dict[str, Any]]) -> str:
    """Name the versions and machines of ``run`` parts of results, for the foot of a page."""
    words = []
    for run in runs:
        machine = run.get("machine")
        where = machine if isinstance(machine, dict) else {}
        words.append(f"patchprint {run.get('version', '–')}, torch {where.get('torch', '–')}, {machine_name(where)}")
    return "; ".join(dict.fromkeys(words))


def machine_name(machine: dict[str, Any]) -> str:
    """Processor, cores and GPU of `machine` in a line."""
    gpu = f", {machine['gpu']}" if machine.get("gpu") else ""
    return f"{machine.get('cpu', '–')} ({machine.get('cores', '–')} cores){gpu}"


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
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

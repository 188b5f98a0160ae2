"""Check and time everything that needs an NVIDIA GPU, within the minutes of a lease.

    python -m perf.speed.on_gpu prepare data/lease-gpu --shared ../shared/data           here: images, packages
    python3 -m perf.speed.on_gpu run data/lease-gpu --out "$OUT" --seconds 240 --brief   there: checks, and each time once
    python3 -m perf.speed.on_gpu run data/lease-gpu --out "$OUT" --seconds 110 --only times      there, nothing else running

Every section has a process of its own, so that one that fails does not take the others with it. Checks run together. Times run
one after the other, by worth, in processes that have imported everything before; with ``--brief`` they too run together, which
shows that they work and fills the caches of compilers. After each section, ``--out`` has on-gpu.log, with full tracebacks, and
on-gpu.tar.xz, with files in the format of results/speed. The machine needs torch, triton, numpy, OpenCV and safetensors.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from perf.speed.on_gpu._common import Lease

# Functions of _checks.
CHECKS = {
    "kernels": "kernels",
    "layers": "layers",
    "dog": "dog",
    "extract": "extract",
    "graph": "graph",
}
# Functions of _times by worth, with the most seconds that each may take.
TIMES = {
    "contest": ("contest_stages", 50),
    "folder": ("folder", 25),
    "graph matcher": ("graph_matcher", 15),
    "time of layers": ("layers", 60),
    "step, now": ("step_now", 60),
    "step, tuned": ("step_tuned", 60),
    "growth": ("growth_by_keypoints", 25),
    "time of dog": ("dog", 30),
    "time of learned": ("learned", 15),
    "time of an image": ("image", 20),
    "time of match": ("matching", 30),
    "ways of a folder": ("ways_of_a_folder", 50),
    "step, plain": ("step_plain", 30),
    "step, hardnet": ("step_hardnet", 30),
}
_CHECKING = 150  # seconds
_IMPORTING = 25  # seconds
_PACKAGES = "packages.zip"  # pure Python, which the machine does not have
_SHOWN = 60  # lines of a section that are printed; all are in the log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("prepare", "run", "section"))
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--shared", type=Path, default=Path("../shared/data"), help="where the Oxford and ETH images are"
    )
    parser.add_argument("--out", type=Path, help="where on-gpu.log and on-gpu.tar.xz are written")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--brief", action="store_true", help="run the times once, all together: they count for nothing")
    parser.add_argument("--only", nargs="+", default=["checks", "times"], help="sections, or all 'checks' or 'times'")
    parser.add_argument("--wait", action="store_true", help=argparse.SUPPRESS)  # for a line on the standard input
    given = parser.parse_args()
    if given.action == "prepare":
        prepare(given.folder, given.shared)
    elif given.action == "section":
        (name,) = given.only
        section(given.folder, name, given.brief, given.wait)
    else:
        run(given.folder, given.out or given.folder, given.seconds, given.only, given.brief)


def prepare(folder: Path, shared: Path) -> None:
    """Write the images of the contest, parts of real ones, and packages of pure Python, kornia without its Rust part."""
    import numpy as np

    from patchprint.interop.images import read_gray
    from patchprint.pipelines.bench import BenchSettings, read_images
    from perf.speed.contest import save_images

    folder.mkdir(parents=True, exist_ok=True)
    save_images(read_images(BenchSettings()), folder / "bench.npz")
    with np.load(folder / "bench.npz") as arrays:
        bench = {name: arrays[name] for name in arrays.files}
    np.savez_compressed(folder / "bench.npz", allow_pickle=False, **bench)
    parts = {f"oxford {name}": read_gray(shared / "oxford" / name / "img1.png") for name in ("graf", "boat", "leuven")}
    for name in ("fountain", "herzjesu"):
        parts[f"eth {name}"] = read_gray(min((shared / "eth" / name / "images").iterdir()))[400:1400, 600:1800]
    np.savez_compressed(
        folder / "real.npz", allow_pickle=False, **{name: np.ascontiguousarray(part) for name, part in parts.items()}
    )
    with zipfile.ZipFile(folder / _PACKAGES, "w", zipfile.ZIP_LZMA) as packed:
        for name in ("kornia", "packaging", "tqdm"):
            root = Path(str(importlib.import_module(name).__file__)).parent
            for path in sorted(root.rglob("*.py")):
                packed.write(path, str(path.relative_to(root.parent)))
        for name in ("__init__", "io"):
            packed.writestr(f"kornia_rs/{name}.py", "")


def section(folder: Path, name: str, brief: bool, wait: bool) -> None:
    """Run a section in this process; with ``wait`` import first, and begin when a line comes."""
    import torch

    from perf.speed.on_gpu import _checks, _times
    from perf.speed.on_gpu._common import Lease

    work: Callable[[Lease], None] = (
        getattr(_checks, CHECKS[name]) if name in CHECKS else getattr(_times, TIMES[name][0])
    )
    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")
    lease = Lease(folder, brief)
    if wait:
        print(f"ready after {time.process_time():.1f} s of work", flush=True)
        if not sys.stdin.readline():  # its turn never came
            return
    work(lease)


def run(folder: Path, out: Path, seconds: float, only: list[str], brief: bool = False) -> None:
    began = time.monotonic()
    results, log = folder / "results", out / "on-gpu.log"
    shutil.rmtree(results, ignore_errors=True)  # those of a brief run count for nothing
    results.mkdir(parents=True)
    out.mkdir(parents=True, exist_ok=True)
    groups = {"checks": list(CHECKS), "times": list(TIMES)}
    chosen = {each for name in only for each in groups.get(name, [name])}
    if unknown := chosen - {*CHECKS, *TIMES}:
        raise SystemExit(f"no section is called {', '.join(sorted(unknown))}; there are {', '.join([*CHECKS, *TIMES])}")
    environment = _environment(folder)
    failed: list[str] = []

    def left() -> float:
        return seconds - (time.monotonic() - began)

    def start(name: str, *flags: str) -> subprocess.Popen[bytes]:
        """Start a section; those that run beside others take few threads."""
        command = [sys.executable, "-m", "perf.speed.on_gpu", "section", str(folder), "--only", name, *flags]
        threads = {} if "--wait" in flags else {"OMP_NUM_THREADS": "2"}
        with open(results / f"{name}.log", "wb") as said:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, env={**environment, **threads}
            )

    def finish(name: str, process: subprocess.Popen[bytes], limit: float) -> None:
        since = time.monotonic()
        try:
            process.wait(max(limit, 1.0))
            ending = f"exit code {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ending = "cut off"
        text = (results / f"{name}.log").read_text(errors="replace")
        title = f"===== {name}: {ending}, {time.monotonic() - since:.0f} s, {time.monotonic() - began:.0f} s in all"
        shown = _without_tracebacks(text.splitlines())
        print("\n".join([title, *shown[-_SHOWN:]]), flush=True)
        failed.extend([f"{name}: {ending}"] * (ending != "exit code 0"))
        failed.extend(f"{name}: {what}" for what in re.findall(r"^FAILED (.*)$", text, re.MULTILINE))
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{title}\n{text}\n")
        with tarfile.open(out / "on-gpu.tar.xz", "w:xz", preset=1) as tar:
            tar.add(results, "results")

    checking = [(name, start(name)) for name in CHECKS if name in chosen]
    for name, process in checking:
        finish(name, process, min(_CHECKING, seconds) - (time.monotonic() - began))
    times = [name for name in TIMES if name in chosen]
    if brief:
        for name, process in [(name, start(name, "--brief")) for name in times]:
            finish(name, process, left())
    else:
        waiting = [(name, start(name, "--wait")) for name in times]
        _wait_until_ready([results / f"{name}.log" for name in times], [process for _, process in waiting])
        for name, process in waiting:
            if left() < 4:
                process.kill()
                process.wait()
                print(f"===== {name}: no time was left", flush=True)
                continue
            assert process.stdin is not None
            try:
                process.stdin.write(b"\n")
                process.stdin.close()
            except BrokenPipeError:  # it failed before its turn; its log says why
                pass
            finish(name, process, min(TIMES[name][1], left()))
    summary = f"===== {len(failed)} failed in {time.monotonic() - began:.0f} s"
    print("\n".join([summary, *failed]), flush=True)
    with open(log, "a", encoding="utf-8") as file:
        file.write("\n".join([summary, *failed]) + "\n")


def _wait_until_ready(logs: list[Path], processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait for sections that import, which would keep the machine busy while others are timed."""
    began = time.monotonic()
    while time.monotonic() - began < _IMPORTING:
        pairs = zip(logs, processes, strict=True)
        if all(process.poll() is not None or b"ready" in log.read_bytes() for log, process in pairs):
            break
        time.sleep(0.1)
    print(f"===== ready after {time.monotonic() - began:.0f} s", flush=True)


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of sections, which has the packages that were carried along."""
    packages = folder / "packages"
    if (folder / _PACKAGES).is_file() and not packages.is_dir():
        with zipfile.ZipFile(folder / _PACKAGES) as packed:
            packed.extractall(packages)
    path = ":".join(filter(None, [os.environ.get("PYTHONPATH"), str(packages.resolve())]))
    return {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}


def _without_tracebacks(lines: list[str]) -> list[str]:
    """Leave out all of a traceback but its last lines, which name the error."""
    found: list[str] = []
    inside = False
    for line in lines:
        if line.startswith("Traceback"):
            inside = True
        elif inside and line[:1] not in ("", " "):
            inside = False
            found.append(line[:400])
        elif not inside:
            found.append(line[:400])
    return found


if __name__ == "__main__":
    main()

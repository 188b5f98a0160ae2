"""Check and time everything that needs an NVIDIA GPU, within the minutes of a lease.

    python -m perf.speed.on_gpu prepare data/on-gpu --shared ../shared/data         here: images, and kornia to compare with
    python3 -m perf.speed.on_gpu run data/on-gpu --out "$OUT" --seconds 240         there, with data/on-gpu carried along

Sections run one after the other by worth, each in a process of its own, so that one that fails does not take the others with
it; the checks run together at the start. After each, ``--out`` has on-gpu.log and on-gpu.tar.xz with the numbers so far. The
machine needs torch, triton, numpy, OpenCV, safetensors and tqdm.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np

from perf.speed.on_gpu import _checks, _times
from perf.speed.on_gpu._common import Lease

CHECKS = {
    "kernels": _checks.kernels,
    "dog": _checks.dog,
    "extract": _checks.extract,
    "step kernels": _checks.step_kernels,
}
# By worth, with the most seconds that each may take.
TIMES = {
    "contest": (_times.contest_stages, 60),
    "time of dog": (_times.dog, 45),
    "time of match": (_times.matching, 40),
    "time of a folder": (_times.folder, 50),
    "time of an image": (_times.image, 35),
    "time of layers": (_times.layers, 60),
    **{f"step: {name}": (_times.step(name), 60) for name in ("now", "all", "gradient", "norm", "first")},
}
_CHECKING = 90  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("prepare", "run", "section"))
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--shared", type=Path, default=Path("../shared/data"), help="where the Oxford and ETH images are"
    )
    parser.add_argument("--out", type=Path, help="where on-gpu.log and on-gpu.tar.xz are written")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--only", nargs="+", default=[*CHECKS, *TIMES], help="sections")
    given = parser.parse_args()
    os.environ["PATCHPRINT_NEW_KERNELS"] = "1"
    if given.action == "prepare":
        prepare(given.folder, given.shared)
    elif given.action == "section":
        (name,) = given.only
        (CHECKS[name] if name in CHECKS else TIMES[name][0])(Lease(given.folder))
    else:
        run(given.folder, given.out or given.folder, given.seconds, given.only)


def prepare(folder: Path, shared: Path) -> None:
    """Write the images of the contest, parts of real ones, and kornia's Python files with nothing in place of its Rust part."""
    import kornia

    from patchprint.interop.images import read_gray
    from patchprint.pipelines.bench import BenchSettings, read_images
    from perf.speed.contest import save_images

    folder.mkdir(parents=True, exist_ok=True)
    save_images(read_images(BenchSettings()), folder / "bench.npz")
    parts = {f"oxford {name}": read_gray(shared / "oxford" / name / "img1.png") for name in ("graf", "boat", "leuven")}
    for name in ("fountain", "herzjesu"):
        parts[f"eth {name}"] = read_gray(min((shared / "eth" / name / "images").iterdir()))[400:1400, 600:1800]
    np.savez_compressed(
        folder / "real.npz", allow_pickle=False, **{name: np.ascontiguousarray(part) for name, part in parts.items()}
    )
    shutil.copytree(Path(kornia.__file__).parent, folder / "kornia", ignore=_all_but_python, dirs_exist_ok=True)
    (folder / "kornia_rs").mkdir(exist_ok=True)
    for name in ("__init__.py", "io.py"):
        (folder / "kornia_rs" / name).write_text("")


def _all_but_python(folder: str, names: list[str]) -> list[str]:
    return [
        name for name in names if not (name.endswith(".py") or (Path(folder) / name).is_dir()) or name == "__pycache__"
    ]


def run(folder: Path, out: Path, seconds: float, only: list[str]) -> None:
    began = time.monotonic()
    results = folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)

    def start(name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "perf.speed.on_gpu", "section", str(folder), "--only", name]
        with open(results / f"{name}.log", "wb") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )

    def finish(name: str, process: subprocess.Popen[bytes], limit: float) -> None:
        try:
            process.wait(max(limit, 1.0))
            ending = f"exit code {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ending = "cut off"
        said = (results / f"{name}.log").read_text(errors="replace")
        text = f"===== {name}: {ending}, {time.monotonic() - began:.0f} s in all\n{said}"
        print(text, flush=True)
        with open(out / "on-gpu.log", "a", encoding="utf-8") as log:
            log.write(text + "\n")
        with tarfile.open(out / "on-gpu.tar.xz", "w:xz") as tar:
            tar.add(results, "results")

    checking = [(name, start(name)) for name in CHECKS if name in only]
    for name, process in checking:
        finish(name, process, _CHECKING - (time.monotonic() - began))
    for name, (_, limit) in TIMES.items():
        left = seconds - (time.monotonic() - began)
        if name in only and left > 8:
            finish(name, start(name), min(limit, left))


if __name__ == "__main__":
    main()

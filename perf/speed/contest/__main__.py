"""Time patchprint, kornia, OpenCV, COLMAP and FAISS on this machine, in turns, on the same images.

    python -m perf.speed.contest --out speed.json                          all stages, on the stereo pair of scikit-image
    python -m perf.speed.contest --data FOLDER --save-images images.npz    prepare images for another machine
    python -m perf.speed.contest --data images.npz --out speed.json        there; without OpenCV it leaves out who needs it
    python -m perf.speed.contest --growth --out growth.json                time and memory by the number of keypoints

``patchprint bench`` times our models alone. Contenders that are not installed are named in the result and left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from patchprint.common.devices import choose_device
from patchprint.common.errors import MissingPackageError, UserError
from patchprint.common.files import write_json
from patchprint.common.provenance import Result
from patchprint.networks.weights import weight_names
from patchprint.pipelines import bench
from perf.speed.contest._growth import COUNTS, growth
from perf.speed.contest._images import open_images, save_images
from perf.speed.contest._stages import STAGES, Contest

# Spins on one core until its parent is gone, also where that was killed.
_SPIN = """
import os, sys
parent, core = map(int, sys.argv[1:])
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {core})
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of images, or a file of --save-images")
    parser.add_argument("--save-images", type=Path, help="write the images to this file (.npz) and end")
    parser.add_argument("--out", type=Path, help="the result (.json)")
    parser.add_argument("--images", type=int, default=2, help="how many of the folder")
    parser.add_argument("--megapixels", type=float, default=1.0)
    parser.add_argument("--max-keypoints", type=int, default=2000)
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=list(STAGES))
    parser.add_argument("--models", nargs="+", default=(), help="shipped weights or weight files; default: all shipped")
    parser.add_argument("--engines", nargs="+", default=())
    parser.add_argument("--others", nargs="*", help="who else describes, such as 'OpenCV SIFT'; default: all")
    parser.add_argument("--rounds", type=int, default=bench.ROUNDS)
    parser.add_argument("--busy", type=int, default=0, help="cores that other processes keep busy meanwhile")
    parser.add_argument("--growth", action="store_true", help="time and memory by the number of keypoints instead")
    parser.add_argument("--counts", nargs="+", type=int, default=COUNTS, help="those numbers")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    if given.data is not None and given.data.is_file():
        data = open_images(given.data)
    else:
        names = ("data", "images", "megapixels", "max_keypoints", "rounds")
        data = bench.read_images(bench.BenchSettings(**{name: getattr(given, name) for name in names}))
    if given.save_images:
        save_images(data, given.save_images)
        return
    if given.out is None:
        parser.error("give --out")
    if given.growth:
        result = growth(data, given.models, given.counts, device=given.device)
    else:
        result = contest(
            data, given.stages, given.models, given.engines, given.rounds, given.busy, given.device, given.others
        )
    write_json(given.out, result.to_json())


def contest(
    data: bench.BenchImages,
    stages: list[str],
    models: list[str],
    engines: list[str],
    rounds: int = bench.ROUNDS,
    busy: int = 0,
    device: str = "auto",
    others: list[str] | None = None,
) -> Result:
    """Time all contenders in the stages; see `patchprint.pipelines.bench.bench`."""
    started, place = time.monotonic(), choose_device(device)
    setup = Contest(data, place, models or weight_names(), engines or bench.engine_names(place), others)
    setup.ours(setup.engines), setup.others()  # missing files are found now, not after minutes
    scores = {}
    for name in stages:
        try:
            work = STAGES[name](setup)
        except MissingPackageError as error:  # a stage that nobody here can do
            setup.left_out[name] = str(error)
            continue
        with busy_cores(busy):
            scores[name] = work.score(name, rounds, place)
    return bench.record(data, {**scores, "left_out": setup.left_out}, rounds, place, started, busy_cores=busy)


@contextlib.contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep ``count`` of the cores that this process may use busy with other processes, one each."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    if not 0 <= count <= len(cores):
        raise UserError(f"--busy is {count}; give a number from 0 to {len(cores)}, the number of cores")
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN, str(os.getpid()), str(core)]) for core in cores[:count]]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()

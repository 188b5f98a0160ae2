"""Train the second edition of the weights on a GPU machine that is lent for minutes: what is carried, the runs, the results.

    python -m perf.release.second_edition pack data/second                         # here: stores.tar.xz in it
    python3 -m perf.release.second_edition run tries data/second --out "$OUT"      # there, data/second carried along
    python3 -m perf.release.second_edition run weights data/second --out "$OUT"    # there, the whole retraining

``second_edition.json`` lists the runs of either kind, in stages. There, warped copies of all images are made first, with the
keypoints of ``learned`` and of ``dog``, one process a core; then the runs of a stage go side by side. A stage begins when the
one before is done, since students need their teacher. What is done comes back even where time runs out.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.safe_io import read_json
from patchprint.data import splits, track_files
from patchprint.data.builders.homographies import make_tracks
from patchprint.interop.images import encode_image
from patchprint.matching.calibration import spread_over
from patchprint.networks import weights

LIST = Path(__file__).with_suffix(".json")
ARCHIVE = "stores.tar.xz"
GROUPS = ("old", "new", "single")
DETECTORS = {"dog": "dog-published", "learned": "learned"}
VIEWS, KEYPOINTS, STRENGTH = 2, 700, 1.5  # copies of an image, as strong as those that validation warps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packed = commands.add_parser("pack")
    packed.add_argument("work", type=Path, help="folder with the stores in old/, new/ and single/")
    ran = commands.add_parser("run")
    ran.add_argument("kind", help="which runs of second_edition.json: tries or weights")
    ran.add_argument("work", type=Path, help="folder with the archive; stores and runs are made in it")
    ran.add_argument("--out", type=Path, required=True)
    ran.add_argument("--seconds", type=float, default=540.0, help="when runs that are not done are ended")
    ran.add_argument("--only", nargs="+", help="names of runs; default: all")
    ran.add_argument("--set", nargs="*", default=[], help="settings of every run, as in steps=20, to try it out")
    ran.add_argument("--images", type=int, default=1000, help="how many of a store are warped")
    arguments = parser.parse_args()
    if arguments.command == "pack":
        pack(arguments.work)
        return 0
    return run(arguments)


def pack(work: Path) -> None:
    """Write the stores into one archive."""
    with files.atomic_file(work / ARCHIVE) as temporary, tarfile.open(temporary, "w:xz", preset=9) as stream:
        for group in GROUPS:
            stream.add(work / group, group)
    print(f"{work / ARCHIVE}: {(work / ARCHIVE).stat().st_size / 1e6:.1f} MB")


def run(arguments: argparse.Namespace) -> int:
    """Do the runs stage by stage and hand back what is done; 1 where one is missing."""
    end, work = time.monotonic() + arguments.seconds, arguments.work.resolve()
    if not all((work / group).is_dir() for group in GROUPS):
        with tarfile.open(work / ARCHIVE) as stream:
            stream.extractall(work, filter="data")
    warp(work, arguments.images)
    print(f"{time.strftime('%H:%M:%S')} images are warped", flush=True)
    listed = read_json(LIST, "a list of runs")
    missing = []
    for stage in listed[arguments.kind]:
        chosen = {name: changes for name, changes in stage.items() if arguments.only is None or name in arguments.only}
        started = {name: start(work, name, changes, arguments.set) for name, changes in chosen.items()}
        for name, process in started.items():
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
            done = process.returncode == 0
            print(f"{time.strftime('%H:%M:%S')} {name} {'done' if done else 'not done'}", flush=True)
            missing += [] if done else [name]
            hand_back(work / "runs" / name, arguments.out / name)
    return 1 if missing else 0


def warp(work: Path, most: int) -> None:
    """Make a store of warped copies of the images of every store, for each detector, in ``warped/DETECTOR``."""
    stores = sorted(path for group in GROUPS for path in (work / group).iterdir())
    jobs = [
        (store, work / "warped" / name / store.name, DETECTORS[name], most) for store in stores for name in DETECTORS
    ]
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        pool.starmap(_warp, [job for job in jobs if not job[1].exists()], chunksize=1)


def _warp(store: Path, out: Path, detector: str, most: int) -> None:
    stored = track_files.read(store)
    numbers = spread_over(len(stored.sizes), most)
    originals = (stored.image(number) for number in numbers)
    try:
        images, tracks = make_tracks(originals, VIEWS, sum(out.name.encode()), KEYPOINTS, STRENGTH, detector)
    except UserError as error:  # one store without texture must not cost the others their time on the GPU
        print(f"{out.parent.name}/{out.name} is left out: {error}", flush=True)
        return
    tracks = dataclasses.replace(tracks, part=splits.by_scene(tracks.scene))
    labels = [f"{stored.names.images[number]} view {view}" for number in numbers for view in range(VIEWS + 1)]
    scenes = [stored.names.images[number] for number in numbers]
    track_files.write(out, map(encode_image, images), tracks, track_files.Names(labels, scenes))


def start(work: Path, name: str, changes: dict[str, Any], more: list[str]) -> subprocess.Popen[bytes]:
    """Start a run as a process of its own, with its settings and its log beside its results."""
    from patchprint.training.recipes import read_options

    folder = work / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**changes, **read_options(more), "out": str(folder / "run"), "tensorboard": False}
    settings["data"] = [str(path) for pattern in changes["data"] for path in sorted(work.glob(pattern))]
    settings["teacher"] = [
        str(work / "runs" / teacher / "run/best.safetensors") for teacher in changes.get("teacher", [])
    ]
    files.write_json(folder / "run.json", settings)
    with open(folder / "log.txt", "wb") as log:
        command = [sys.executable, "-m", "patchprint.training", str(folder / "run.json")]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def hand_back(folder: Path, out: Path) -> None:
    """Copy what a run left behind: weights as float16, metrics, settings and the log."""
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = [
        path for path in (folder / "run/metrics.jsonl", folder / "run/config.json", folder / "log.txt") if path.exists()
    ]
    with tarfile.open(out.with_name(f"{out.name}.tar.xz"), "w:xz") as stream:
        for path in kept:
            stream.add(path, path.name)
        best = folder / "run/best.safetensors"
        if best.exists():
            half = folder / "half.safetensors"
            network = weights.load_network(best)
            weights.save(network, half, half=True)
            stream.add(half, "best.safetensors")


if __name__ == "__main__":
    sys.exit(main())

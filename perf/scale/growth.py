"""Measure time, memory and files by the number of images: one file an image, shards, Ray; all pairs, retrieval.

    python -m perf.scale.growth --images ../shared/data/photos --work runs/growth --out results/scale/growth.json

Images are made of a few by warping: each real one seen from so many sides that they suffice, 640 pixels wide. Every stage is a
``patchprint`` command in a process of its own. Memory is the largest sum of the resident sizes of it and all that it started,
looked at five times a second; CPU seconds are those of all of them, and do not depend on what else the machine does. What is
done up to a size only (``--files-to``, ``--ray-to``, ``--exhaustive-to``) would take hours beyond it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from patchprint.common import provenance
from patchprint.common.files import write_json
from patchprint.interop.images import list_images, read_gray

SETS = ("notredame/images", "liberty/images", "oxford-landmarks")
SIDE = (640, 480)
MODEL = "patchprint.tiny"
NEIGHBORS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="photos, features and matches; several gigabytes")
    parser.add_argument("--out", type=Path, required=True, help="what it holds of other sizes is kept")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--keypoints", type=int, default=128, help="in an image")
    parser.add_argument("--files-to", type=int, default=1000)
    parser.add_argument("--ray-to", type=int, default=1000)
    parser.add_argument("--exhaustive-to", type=int, default=300)
    arguments = parser.parse_args()
    started = time.monotonic()
    scores: dict[str, Any] = {}
    if arguments.out.is_file():
        scores = json.loads(arguments.out.read_text(encoding="utf-8"))["scores"]
    for size in arguments.sizes:
        photos = arguments.work / f"photos-{size}"
        make_photos(arguments.images, photos, size)
        scores[str(size)] = measured(photos, arguments.work / str(size), size, arguments)
        print(size, json.dumps(scores[str(size)]), flush=True)
        ordered = dict(sorted(scores.items(), key=lambda item: int(item[0])))
        result = provenance.record(
            "growth with photos",
            settings={"model": MODEL, "keypoints": arguments.keypoints, "neighbors": NEIGHBORS, "pixels": SIDE},
            data={"path": str(arguments.images), "sets": SETS},
            scores=ordered,
            started=started,
        )
        write_json(arguments.out, result.to_json())


def measured(photos: Path, work: Path, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The stages of one size, each by its name."""
    how = ("--model", MODEL, "--max-keypoints", str(arguments.keypoints), "--device", "cpu")
    describe = ("describe", str(photos), *how, "--force", "--out")
    rows = {"describe, shards": stage([*describe, str(work / "shards"), "--shards"], work / "shards")}
    if size <= arguments.files_to:
        rows["describe, a file a photo"] = stage([*describe, str(work / "files")], work / "files")
    if size <= arguments.ray_to:
        rows["describe, Ray"] = stage([*describe, str(work / "ray"), "--engine", "ray"], work / "ray")
    match = ("match", str(work / "shards"), "--geometry", "none", "--force", "--out")
    retrieval = ("--pairs", "retrieval", "--neighbors", str(NEIGHBORS))
    rows["match, retrieval"] = stage([*match, str(work / "alike"), *retrieval], work / "alike")
    if size <= arguments.ray_to:
        there = work / "alike-ray"
        rows["match, retrieval, Ray"] = stage([*match, str(there), *retrieval, "--engine", "ray"], there)
    if size <= arguments.exhaustive_to:
        rows["match, all pairs"] = stage([*match, str(work / "all")], work / "all")
    return rows


def stage(command: list[str], out: Path) -> dict[str, Any]:
    """One command: seconds, memory, and the files that it leaves."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "patchprint", *command, "--json"], stdout=subprocess.PIPE, text=True
    )
    peak, ticks = 0, dict[int, int]()
    while process.poll() is None:
        tree = processes_below(process.pid)
        peak = max([peak, sum(resident for resident, _ in tree.values())])
        ticks |= {number: spent for number, (_, spent) in tree.items()}
        time.sleep(0.2)
    seconds = time.monotonic() - started
    said = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    written = [file for file in out.rglob("*") if file.is_file()]
    numbers = json.loads(said)
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(sum(ticks.values()) / os.sysconf("SC_CLK_TCK"), 1),
        "peak_mib": round(peak / 2**20),
        "files": len(written),
        "mib": round(sum(file.stat().st_size for file in written) / 2**20, 1),
        "photos": numbers["images"],
        **{name: numbers[name] for name in ("keypoints", "pairs", "matches") if numbers.get(name) is not None},
    }


def processes_below(root: int) -> dict[int, tuple[int, int]]:
    """A process and all that it started: resident bytes (shared pages count each time) and clock ticks of the CPU, as Linux
    tells them."""
    parents, found = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(place.name)] = int(fields[1])
        resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        found[int(place.name)] = resident, int(fields[11]) + int(fields[12])
    mine = {}
    for number in found:
        ancestor = number
        while ancestor not in (root, 0, 1):
            ancestor = parents.get(ancestor, 0)
        if ancestor == root:
            mine[number] = found[number]
    return mine


def make_photos(source: Path, out: Path, size: int) -> None:
    """Image ``p`` of a scene ``s`` is called ``sssss-pp.jpg``; those of a scene are one image under random homographies."""
    real = [source / each / name for each in SETS for name in list_images(source / each)]
    out.mkdir(parents=True, exist_ok=True)
    views = max(10, -(-size // len(real)))  # of each scene
    for number in range(size):
        scene, view = divmod(number, views)
        path = out / f"{scene:05}-{view:03}.jpg"
        if not path.is_file():
            cv2.imwrite(str(path), warped(read_gray(real[scene * 7 % len(real)]), number))


def warped(image: np.ndarray, seed: int) -> np.ndarray:
    """A view of an image from a side: its corners moved by up to a sixth of its sides."""
    rng = np.random.default_rng(seed)
    height, width = image.shape
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    moved = corners + rng.uniform(-1 / 6, 1 / 6, (4, 2)).astype(np.float32) * [width, height]
    target = np.array([[0, 0], [SIDE[0], 0], [*SIDE], [0, SIDE[1]]], np.float32)
    homography = cv2.getPerspectiveTransform(moved.astype(np.float32), target)
    return cv2.warpPerspective(image, homography, SIDE, flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REFLECT)


if __name__ == "__main__":
    main()

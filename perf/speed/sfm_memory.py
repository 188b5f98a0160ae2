"""Measure the memory of keypoint detection for SfM, by threads: our use of COLMAP's detector, and COLMAP's own.

    python -m perf.speed.sfm_memory ../shared/data/eth/fountain/images --out results/speed/sfm-memory.json

Each part runs in a process of its own, whose largest resident size is what counts (it includes Python and torch). Bytes of a
pixel are the growth over a process that only imports, for each image that is searched at a time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from patchprint.common import provenance
from patchprint.common.files import write_json
from patchprint.detectors import detect
from patchprint.interop.colmap_sfm import MEMORY_GB, max_parallel_images
from patchprint.interop.images import image_size, list_images, read_gray

PHOTOS = 4
THREADS = (1, 2)


def measure(part: str, folder: Path, names: list[str]) -> None:
    """Do one part in this process: "nothing", "detect" (one image) or a number of COLMAP's threads (all images)."""
    from patchprint.interop.colmap_models import pycolmap

    if part == "nothing":
        return
    if part == "detect":
        detect(read_gray(folder / names[0]), "colmap", max_keypoints=None)
        return
    options = pycolmap.FeatureExtractionOptions(use_gpu=False, num_threads=int(part))
    with tempfile.TemporaryDirectory() as work:
        database = Path(work) / "database.db"
        pycolmap.extract_features(database, folder, names, extraction_options=options, device=pycolmap.Device.cpu)


def run(part: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "perf.speed.sfm_memory", str(arguments.images), "--part", part]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "images", type=Path, help=f"folder of images of one size, of which the first {PHOTOS} are taken"
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", help="run one part in this process and print it")
    arguments = parser.parse_args()
    names = list_images(arguments.images)[:PHOTOS]
    if arguments.part:
        started = time.monotonic()
        measure(arguments.part, arguments.images, names)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"peak_mib": round(peak, 1), "seconds": round(time.monotonic() - started, 1)}))
        return
    if arguments.out is None:
        parser.error("--out is needed")
    width, height = image_size(arguments.images / names[0])
    scores = {}
    for part, photos in (("nothing", 0), ("detect", 1), *((str(count), count) for count in THREADS)):
        scores[part] = run(part, arguments)
        if photos:
            grown = (scores[part]["peak_mib"] - scores["nothing"]["peak_mib"]) * 2**20
            scores[part]["bytes_per_pixel"] = round(grown / photos / width / height)
        print(part, scores[part], flush=True)
    result = provenance.record(
        "memory of keypoints for sfm",
        settings={
            "photos": len(names),
            "size": [width, height],
            "memory_gb": MEMORY_GB,
            "photos_at_once": max_parallel_images(arguments.images, names, MEMORY_GB, max(THREADS)),
        },
        model={"name": "detector colmap"},
        data={"path": str(arguments.images), "photos": names},
        seed=None,
        scores=scores,
    )
    write_json(arguments.out, result.to_json())


if __name__ == "__main__":
    main()

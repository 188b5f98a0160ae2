"""Time the description of a folder: images per second, and the time of each stage.

python -m perf.speed.folder photos.npz --device cuda --out results/speed/folder-gpu.json

The images come from `python -m perf.speed.contest --save-images photos.npz`, and are written as JPEG files again and again.
Starting takes seconds whatever the number of images, so that the rate is that of the images by which one folder is larger than
another. Where the CPU finds the keypoints, the rate at which all cores together do that and nothing else stands beside it: no
folder can go beyond.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from patchprint.common import files, provenance
from patchprint.common.devices import choose_device, single_thread
from patchprint.common.provenance import Result
from patchprint.features import load
from patchprint.features.extract import DescribeSettings, describe_found, find_keypoints
from patchprint.interop.images import read_gray
from patchprint.pipelines.bench import BenchImages
from patchprint.storage import feature_files
from patchprint.storage.feature_folder import describe_folder
from perf.speed.contest import open_images

_TURNS = 5  # of each station, of which the median counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", default="patchprint")
    parser.add_argument(
        "--counts", type=int, nargs=2, default=(100, 600), help="photos in the smaller and larger folder"
    )
    parser.add_argument("--workers", type=int, default=None, help="default: as describe_folder chooses")
    arguments = parser.parse_args()
    result = measure(
        open_images(arguments.photos),
        model=arguments.model,
        device=arguments.device,
        counts=arguments.counts,
        workers=arguments.workers,
    )
    print(result.scores)
    files.write_json(arguments.out, result.to_json())


def measure(
    photos: BenchImages, *, model: str, device: str, counts: tuple[int, int], workers: int | None = None
) -> Result:
    """Time each station, and a smaller and a larger folder of copies of the photos."""
    started, place = time.monotonic(), choose_device(device)
    settings = DescribeSettings(model=model, max_keypoints=photos.count, device=device)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scores: dict[str, Any] = {"stations_ms": stations(photos, settings, folder)}
        if place.type != "cuda":
            scores["detected_per_second"] = detected_per_second(photos, workers or os.cpu_count() or 1)
        scores |= rate(photos, settings, counts, workers, folder)
    facts = {"device": place.type, "model": model, "counts": list(counts), "workers": workers, "cores": os.cpu_count()}
    return provenance.record("folder", settings=facts, scores=scores, data=photos.facts(), started=started)


def stations(photos: BenchImages, settings: DescribeSettings, folder: Path) -> dict[str, float]:
    """Milliseconds of one image at each station, on one core and the device."""
    image, model = photos.images[0], load(settings.model, settings.device, engine=settings.engine)
    file, out = folder / "photo.jpg", folder / "photo.npz"
    cv2.imwrite(str(file), image)
    found = find_keypoints(image, max_keypoints=settings.max_keypoints, device=model.device)
    features = describe_found(found, model)
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    with single_thread():
        taken = {
            "read": median_ms(lambda: read_gray(file)),
            "detect": median_ms(
                lambda: find_keypoints(image, max_keypoints=settings.max_keypoints, device=model.device)
            ),
            "describe": median_ms(lambda: describe_found(found, model)),
            "write": median_ms(lambda: feature_files.save_features(features, out)),
        }
    cv2.setNumThreads(threads)
    return taken


def detected_per_second(photos: BenchImages, workers: int) -> float:
    """Photos whose keypoints so many processes find together, once all have started."""
    image, count = photos.images[0], photos.count
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=cv2.setNumThreads, initargs=(1,)
    ) as pool:
        for turn in (1, _TURNS):  # the first starts them
            begun = time.monotonic()
            list(pool.map(find_count, [image] * workers * turn, [count] * workers * turn))
            seconds = time.monotonic() - begun
    return round(workers * _TURNS / seconds, 1)


def find_count(image: np.ndarray, count: int) -> int:
    with single_thread():
        return len(find_keypoints(image, max_keypoints=count).keypoints)


def rate(
    photos: BenchImages, settings: DescribeSettings, counts: tuple[int, int], workers: int | None, folder: Path
) -> dict[str, float]:
    seconds = []
    for count in counts:
        images = folder / f"{count} photos"
        images.mkdir()
        for number in range(count):
            cv2.imwrite(str(images / f"{number}.jpg"), photos.images[number % len(photos.images)])
        begun = time.monotonic()
        describe_folder(images, folder / f"{count} features", settings, workers=workers)
        seconds.append(time.monotonic() - begun)
    few, many = counts
    return {
        "seconds_of_the_smaller": round(seconds[0], 2),
        "seconds_of_the_larger": round(seconds[1], 2),
        "photos_per_second": round((many - few) / (seconds[1] - seconds[0]), 1),
    }


def median_ms(task: Callable[[], object]) -> float:
    task()
    taken = []
    for _ in range(_TURNS):
        begun = time.monotonic()
        task()
        taken.append(time.monotonic() - begun)
    return round(1e3 * sorted(taken)[_TURNS // 2], 2)


if __name__ == "__main__":
    main()

"""The images of a bench in one file, for a machine without OpenCV and scikit-image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common.files import atomic_file
from patchprint.common.types import Keypoints
from patchprint.pipelines.bench import BenchImages

_FIELDS = ("xy", "scale", "angle", "score")  # of the keypoints of the detector


def save_images(data: BenchImages, path: str | Path) -> None:
    """Write one file (.npz)."""
    arrays: dict[str, Any] = {"source": np.array(data.source), "count": np.array(data.count)}
    for number, (image, keypoints) in enumerate(zip(data.images, data.keypoints, strict=True)):
        arrays[f"image{number}"] = image
        arrays |= {f"{name}{number}": values for name, values in keypoints.to_arrays().items()}
    with atomic_file(path) as temporary:
        np.savez(temporary, allow_pickle=False, **arrays)


def open_images(path: str | Path) -> BenchImages:
    """Read what `save_images` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        numbers = range(sum(name.startswith("image") for name in arrays))
        fields = [{name: arrays[f"{name}{number}"] for name in _FIELDS} for number in numbers]
        keypoints = [Keypoints.from_arrays(each) for each in fields]
        images = [arrays[f"image{number}"] for number in numbers]
        return BenchImages(str(arrays["source"]), images, keypoints, int(arrays["count"]))

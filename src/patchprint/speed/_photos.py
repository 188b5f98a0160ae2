"""The photos that speed is measured on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file
from patchprint.common.optional import require
from patchprint.data.builders import bundled_images
from patchprint.detectors import detect
from patchprint.interop.image_files import list_images, read_gray
from patchprint.types import Keypoints

_FIELDS = ("xy", "scale", "angle", "score")  # what the keypoints of the detector have


@dataclass(frozen=True, eq=False)
class Photos:
    """Photos of one size and the keypoints that all contenders describe; the first two are matched.

    Shape:
        images: uint8 (H, W) each; keypoints: at most ``count`` in each, found by the detector ``dog``.
    """

    source: str
    images: list[np.ndarray]
    keypoints: list[Keypoints]
    count: int

    def facts(self) -> dict[str, Any]:
        """For the ``data`` of a result."""
        sizes = [f"{image.shape[1]} x {image.shape[0]}" for image in self.images]
        return {"path": self.source, "sizes": sizes, "keypoints": [len(found) for found in self.keypoints]}

    def save(self, path: str | Path) -> None:
        """Write one file (.npz), with which a machine without OpenCV and scikit-image can measure too."""
        arrays: dict[str, Any] = {"source": np.array(self.source), "count": np.array(self.count)}
        for number, (image, keypoints) in enumerate(zip(self.images, self.keypoints, strict=True)):
            arrays[f"image{number}"] = image
            arrays |= {f"{name}{number}": values for name, values in keypoints.to_arrays().items()}
        with atomic_file(path) as temporary:
            np.savez(temporary, allow_pickle=False, **arrays)

    @staticmethod
    def open(path: str | Path) -> Photos:
        """What `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            numbers = range(sum(name.startswith("image") for name in arrays))
            images = [arrays[f"image{number}"] for number in numbers]
            fields = [{name: arrays[f"{name}{number}"] for name in _FIELDS} for number in numbers]
            keypoints = [Keypoints.from_arrays(each) for each in fields]
            return Photos(str(arrays["source"]), images, keypoints, int(arrays["count"]))


def read_photos(folder: Path | None, photos: int, megapixels: float, keypoints: int) -> Photos:
    """The first photos of a folder, or (None) the pair of scikit-image, brought to one size: the one that is asked for.

    Photos of any size can so be compared with results from elsewhere; a small one is enlarged.
    """
    if photos < 2:
        raise UserError(f"--photos is {photos}; give at least 2, since two are matched")
    if not 0.01 <= megapixels <= 200:
        raise UserError(f"--megapixels is {megapixels:g}; give a number from 0.01 to 200")
    if keypoints < 1:
        raise UserError(f"--keypoints is {keypoints}; give at least 1")
    if folder is None:
        pair = bundled_images.stereo_pair()
        source, found = "scikit-image: motorcycle", [pair.left, pair.right]
    else:
        names = list_images(folder)[:photos]
        if len(names) < 2:
            raise UserError(f"{folder} holds one photo; two are needed, since they are matched")
        source, found = str(folder), [read_gray(folder / name) for name in names]
    images = [_resized(image, megapixels) for image in found]
    detected = [detect(image, "dog", max_keypoints=keypoints) for image in images]
    if not all(map(len, detected)):
        raise UserError(f"{source}: a photo has no keypoints; give other photos with --data")
    return Photos(source, images, detected, keypoints)


def _resized(image: np.ndarray, megapixels: float) -> np.ndarray:
    cv2 = require("cv2", extra="images")
    factor = (megapixels * 1e6 / image.size) ** 0.5
    return cv2.resize(
        image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    )

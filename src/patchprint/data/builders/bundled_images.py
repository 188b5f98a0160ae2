"""Data without a download: images of the scikit-image package, under homographies and other light.

Training images, held-out images and the stereo pair never mix. The pair ``motorcycle`` has a measured disparity, so it
tests matching on real depth; it is not among the training images and must stay out of them.
"""

from dataclasses import dataclass

import numpy as np

from patchprint.common.errors import require
from patchprint.data.builders.homographies import make_tracks
from patchprint.data.tracks import TrackStore
from patchprint.interop.images import limit_size, read_gray

TRAINING = (
    "astronaut", "brick", "cat", "clock", "coins", "grass", "gravel", "hubble_deep_field",
    "immunohistochemistry", "moon", "page", "retina", "text",
)  # fmt: skip
HELD_OUT = ("camera", "coffee", "rocket")


@dataclass(frozen=True)
class StereoPair:
    """Two rectified views (H, W) uint8 and the disparity (H, W): left (x, y) is right (x - disparity, y); nan = unknown."""

    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray


def image(name: str) -> np.ndarray:
    """One of scikit-image's images as gray uint8 (H, W), at most 640 pixels wide or high."""
    return limit_size(read_gray(getattr(require("skimage.data", extra="eval"), name)()), max_side=640)


def training_source() -> TrackStore:
    """Tracks of the training images."""
    return _source(TRAINING, seed=0)


def held_out_source() -> TrackStore:
    """Tracks of images that are in no training set."""
    return _source(HELD_OUT, seed=1000)


def stereo_pair() -> StereoPair:
    """The motorcycle pair of Middlebury 2014 with its measured disparity."""
    left, right, disparity = require("skimage.data", extra="eval").stereo_motorcycle()
    return StereoPair(read_gray(left), read_gray(right), np.where(np.isfinite(disparity), disparity, np.nan))


def _source(names: tuple[str, ...], seed: int) -> TrackStore:
    return TrackStore.from_images(*make_tracks(map(image, names), num_views=5, seed=seed))

"""OpenCV: keypoints in both directions, and its own features (number, order, form, and that a warped image is matched)."""

import math
from collections.abc import Callable

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from patchprint.common.errors import MissingPackageError
from patchprint.common.types import Features, Keypoints
from patchprint.interop import opencv
from patchprint.interop.images import to_gray
from patchprint.matching import match
from support.peer_images import right_matches, warped_photo

Find = Callable[[np.ndarray, int], tuple[Keypoints, Tensor]]
contributed = pytest.mark.skipif(not hasattr(cv2, "xfeatures2d"), reason="OpenCV has no contributed modules here")
FEATURES = [
    (opencv.rootsift, 128, torch.float32),
    (opencv.orb, 32, torch.uint8),
    pytest.param(opencv.beblid, 64, torch.uint8, marks=contributed),
]


def test_opencv_round_trip_and_meaning() -> None:
    raw = cv2.KeyPoint(x=10.25, y=20.5, size=8.0, angle=90.0, response=0.5, octave=0)
    keypoints = Keypoints.from_opencv([raw])
    assert keypoints.xy.tolist() == [[10.25, 20.5]]
    assert float(keypoints.scale) == 4.0
    assert float(keypoints.angle) == pytest.approx(math.pi / 2)
    back = opencv.from_keypoints(keypoints)[0]
    assert (back.pt, back.size, back.response) == (raw.pt, raw.size, raw.response)
    assert back.angle == pytest.approx(raw.angle, abs=1e-4)
    assert float(Keypoints.from_opencv([cv2.KeyPoint(1, 2, 3)]).angle) == 0  # -1 means none


@pytest.mark.parametrize(("find", "width", "dtype"), FEATURES)
def test_a_warped_photo_is_matched(find: Find, width: int, dtype: torch.dtype) -> None:
    def matcher(a: Features, b: Features) -> tuple[Tensor, Tensor]:
        found = match(a, b, "mutual+ratio", ratio=0.8)
        return found.indices, found.distance

    photo = warped_photo()
    keypoints, descriptors = find(to_gray(photo.first), 150)
    assert 100 < len(keypoints) <= 150 and descriptors.shape == (len(keypoints), width) and descriptors.dtype == dtype
    assert keypoints.score is not None and (keypoints.score.diff() <= 0).all()
    if dtype == torch.float32:
        torch.testing.assert_close(descriptors.norm(dim=1), torch.ones(len(keypoints)))
    right, all_matches = right_matches(lambda image: find(to_gray(image), 300), matcher, photo)
    assert right > 40 and right > 0.8 * all_matches


@pytest.mark.parametrize(("find", "width", "dtype"), FEATURES)
def test_nothing_to_see(find: Find, width: int, dtype: torch.dtype) -> None:
    keypoints, descriptors = find(np.full((64, 64), 7, np.uint8), 10)
    assert len(keypoints) == 0 and descriptors.shape == (0, width) and descriptors.dtype == dtype


@pytest.mark.skipif(hasattr(cv2, "xfeatures2d"), reason="OpenCV has its contributed modules here")
def test_contributed_modules_that_are_missing_are_named() -> None:
    with pytest.raises(MissingPackageError, match="pip install opencv-contrib-python"):
        opencv.create_beblid("orb")

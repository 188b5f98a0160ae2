"""A photo and its warped copy for the features of others, which were learned on photos and see nothing in noise."""

from collections.abc import Callable
from typing import NamedTuple

import cv2
import numpy as np
from skimage import data
from torch import Tensor

from patchprint.common.types import Features, Keypoints, ModelId
from patchprint.ops.geometry import project

_HOMOGRAPHY = np.array([[0.95, 0.08, 6.0], [-0.05, 1.02, 4.0], [1e-4, 5e-5, 1.0]])


class WarpedPhoto(NamedTuple):
    """Two images uint8 (H, W, 3), and the homography from the first to the second."""

    first: np.ndarray
    second: np.ndarray
    homography: np.ndarray


def warped_photo(side: int = 256) -> WarpedPhoto:
    """A photograph that scikit-image ships."""
    photo = cv2.resize(data.astronaut(), (side, side), interpolation=cv2.INTER_AREA)
    return WarpedPhoto(photo, cv2.warpPerspective(photo, _HOMOGRAPHY, (side, side)), _HOMOGRAPHY)


def right_matches(
    extractor: Callable[[np.ndarray], tuple[Keypoints, Tensor]],
    matcher: Callable[[Features, Features], tuple[Tensor, Tensor]],
    photo: WarpedPhoto,
    px: float = 3.0,
) -> tuple[int, int]:
    """How many matches of the two images are right, and how many there are."""
    features = []
    for image in photo[:2]:
        keypoints, descriptors = extractor(image)
        size = (image.shape[1], image.shape[0])
        features.append(Features(keypoints, descriptors, size, None, ModelId("peer")))
    indices, _ = matcher(*features)
    a, b = (each.keypoints.xy.double().numpy() for each in features)
    errors = np.linalg.norm(project(photo.homography, a[indices[:, 0]]) - b[indices[:, 1]], axis=1)
    return int((errors < px).sum()), len(indices)

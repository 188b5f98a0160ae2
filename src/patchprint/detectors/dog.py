"""Differences of Gaussians with SIFT's orientations, as OpenCV finds them (with precise upscale); on GPUs by our kernels."""

from typing import Any

import numpy as np
import torch

from patchprint.common.errors import require
from patchprint.common.types import Keypoints
from patchprint.detectors import Detector, keep_inside, strongest_first
from patchprint.interop.opencv import LAYERS_PER_OCTAVE, SIFT_SIGMA

CONTRAST = 0.02  # COLMAP's peak threshold in OpenCV's unit; OpenCV's own leaves large images with few keypoints
PUBLISHED_CONTRAST = 0.04  # OpenCV's own, which published tables on the Oxford sequences were made with
EDGE = 10.0  # Lowe's limit on the ratio of the curvatures; points on edges have a larger one


def create_sift(contrast: float = 0.04, edge: float = EDGE) -> Any:
    """Create ``cv2.SIFT`` without a limit on the number of keypoints.

    Without ``enable_precise_upscale`` it finds points 0.25 pixels too far to the right and down.
    """
    return require("cv2", extra="images").SIFT_create(
        nfeatures=0,
        nOctaveLayers=LAYERS_PER_OCTAVE,
        contrastThreshold=contrast,
        edgeThreshold=edge,
        sigma=SIFT_SIGMA,
        enable_precise_upscale=True,
    )


def find_dog(
    image: np.ndarray,
    max_keypoints: int | None = None,
    mask: np.ndarray | None = None,
    contrast: float = CONTRAST,
    edge: float = EDGE,
) -> Keypoints:
    """All keypoints above ``contrast``, strongest first; a point with two orientations counts twice."""
    if min(image.shape) < 4:  # OpenCV cannot build a pyramid of it
        return Keypoints.empty()
    allowed = None if mask is None else (np.asarray(mask) != 0).astype(np.uint8)
    return strongest_first(Keypoints.from_opencv(create_sift(contrast, edge).detect(image, allowed)))


def find_dog_on_gpu(
    image: np.ndarray,
    max_keypoints: int | None,
    mask: np.ndarray | None,
    device: torch.device,
    contrast: float = CONTRAST,
    edge: float = EDGE,
) -> Keypoints:
    """The keypoints of `find_dog` but for one or two in a thousand, on ``device``."""
    from patchprint.detectors import _scale_space  # only where there is a GPU

    return keep_inside(_scale_space.find(torch.from_numpy(image), contrast, edge, device), mask)


detector = Detector(
    "differences of Gaussians (OpenCV SIFT, precise upscale)",
    "blobs",
    find_dog,
    {"published": {"contrast": PUBLISHED_CONTRAST}},
    find_on_gpu=find_dog_on_gpu,
)

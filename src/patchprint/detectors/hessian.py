"""Hessian blobs through kornia."""

import numpy as np
import torch

from patchprint.common.errors import require
from patchprint.common.types import Keypoints
from patchprint.detectors import FAINTEST, Detector
from patchprint.interop.kornia import MR_SIZE, add_shape_and_angle, to_tensor

MOST = 4096  # where no number is asked for: kornia fills up to a number, it has no threshold


@torch.no_grad()
def find_hessian(
    image: np.ndarray, max_keypoints: int | None = None, mask: np.ndarray | None = None, affine: bool = False
) -> Keypoints:
    """Maxima over position and scale of the Hessian's determinant, strongest first; ``affine`` adds an elliptic shape."""
    features = require("kornia.feature", extra="eval")
    if min(image.shape) < 32:  # smaller than the finest frame with its margin
        return Keypoints.empty()
    detector = features.ScaleSpaceDetector(max_keypoints or MOST, MR_SIZE, resp_module=features.BlobHessian()).eval()
    pixels = to_tensor(image)
    lafs, scores = detector(pixels, None if mask is None else torch.from_numpy(np.asarray(mask) != 0)[None, None])
    found = scores[0] > FAINTEST
    return add_shape_and_angle(pixels, lafs[:, found], scores[0, found], affine)


detector = Detector("Hessian blobs (kornia)", "blobs", find_hessian, {"affine": {"affine": True}}, "kornia")

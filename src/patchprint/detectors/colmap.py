"""Differences of Gaussians as COLMAP's own SIFT finds them (VLFeat on the CPU)."""

import numpy as np

from patchprint.common.types import Keypoints
from patchprint.detectors import Detector, keep_inside, strongest_first
from patchprint.interop import colmap_models


def find_colmap(image: np.ndarray, max_keypoints: int | None = None, mask: np.ndarray | None = None) -> Keypoints:
    """COLMAP gives no score, so larger scales come first; it does not count second orientations in its limit."""
    if min(image.shape) < 4:
        return Keypoints.empty()
    pycolmap = colmap_models.pycolmap
    options = pycolmap.FeatureExtractionOptions()
    options.use_gpu = False
    options.max_image_size = max(image.shape)
    if max_keypoints is not None:
        options.sift.max_num_features = max_keypoints
    matrix, _ = pycolmap.Sift(options, device=pycolmap.Device.cpu).extract(np.ascontiguousarray(image))
    found = strongest_first(colmap_models.to_keypoints(matrix), max_keypoints)
    return keep_inside(found, mask)


detector = Detector(
    "differences of Gaussians as COLMAP finds them; no score, larger scales count as stronger",
    "blobs",
    find_colmap,
    package="pycolmap",
)

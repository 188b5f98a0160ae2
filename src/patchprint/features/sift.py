"""OpenCV's SIFT and RootSIFT as models: at keypoints of an image, and of patches in the two ways in use."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError, require
from patchprint.common.types import Keypoints, KeypointsLike
from patchprint.detectors.dog import create_sift
from patchprint.features.model import LOWE_RATIO, Model
from patchprint.interop.opencv import LAYERS_PER_OCTAVE, from_keypoints, normalize_sift, sift_octaves
from patchprint.networks import ModelInfo

GRID = 12.0  # side of SIFT's 4 x 4 grid in units of sigma: each bin is 3 sigma wide
TOOLBOX_PATCH = 65  # pixels along the side of the patches of HPatches
TOOLBOX_SIDE = 5.303  # side of a patch in units of ``cv2.KeyPoint.size``, in the toolbox of HPatches


class SiftModel(Model):
    """OpenCV's SIFT or RootSIFT, on the image itself, or on patches as the toolbox of HPatches describes them."""

    name = "sift"

    def __init__(self, root: bool) -> None:
        self.root = root
        name = f"root{self.name}" if root else self.name
        self.info = ModelInfo(name, network="", patch_scale=GRID, license="Apache-2.0 (OpenCV)", ratio=LOWE_RATIO)

    def patch_side(self, stored: int | None) -> int:
        return stored or TOOLBOX_PATCH

    def describe_patches(self, patches: Tensor) -> Tensor:
        values = patches.detach().cpu()
        if values.dtype != torch.uint8:
            values = (values.float().clamp(0, 1) * 255).round().to(torch.uint8)
        keypoint, sift = self._keypoint_of_patch(values.shape[-1]), create_sift()
        rows = [sift.compute(patch, [keypoint])[1] for patch in values[:, 0].contiguous().numpy()]
        return self._normalized(np.concatenate(rows) if rows else np.zeros((0, self.dim), np.float32))

    def describe_keypoints(self, image: np.ndarray, keypoints: KeypointsLike) -> Tensor:
        keypoints = Keypoints.validate(keypoints)
        if keypoints.affine is not None:  # OpenCV knows round keypoints only: straighten the ellipse first
            return Model.describe_keypoints(SmoothedSiftModel(self.root), image, keypoints)
        if len(keypoints) == 0:
            return torch.zeros(0, self.dim)
        returned, descriptors = create_sift().compute(image, points_of_image(image, keypoints))
        if len(returned) != len(keypoints):
            raise RuntimeError(f"OpenCV described {len(returned)} of {len(keypoints)} keypoints")
        return self._normalized(descriptors)

    def with_patch_scale(self, patch_scale: float) -> Model:
        raise UserError(f"{self.info.name} has its own patch; leave the patch scale out")

    def _keypoint_of_patch(self, side: int) -> Any:
        """The keypoint of a patch in the toolbox (hpatches/hpatches-benchmark at e0c993c, python/extract_opencv_sift.py).

        It has no angle and lies in the first octave: gradients are those of the patch as it is, blurred by 1.5 pixels only, and
        the 4 x 4 grid is 1.13 times as wide as the patch.
        """
        keypoint = require("cv2", extra="images").KeyPoint()  # its angle is -1, which OpenCV takes for one degree
        keypoint.pt, keypoint.size = (side / 2, side / 2), side / TOOLBOX_SIDE
        return keypoint

    def _normalized(self, descriptors: np.ndarray) -> Tensor:
        return torch.from_numpy(normalize_sift(descriptors, self.root))


class SmoothedSiftModel(SiftModel):
    """SIFT that describes a patch as SIFT describes the keypoint it was cut at: blurred to its scale first."""

    name = "sift-smoothed"

    def patch_side(self, stored: int | None) -> int:
        return self.input_size

    def _keypoint_of_patch(self, side: int) -> Any:
        """A keypoint whose 4 x 4 grid covers the patch; its octave blurs the patch to a twelfth of its side."""
        sigma, center = side / GRID, (side - 1) / 2
        octave = _clamp_octave(int(sift_octaves(np.array([sigma]))[0]), side)
        return require("cv2", extra="images").KeyPoint(center, center, 2 * sigma, 0.0, 0.0, octave)


def points_of_image(image: np.ndarray, keypoints: Keypoints) -> list[Any]:
    """Convert keypoints to ``list[cv2.KeyPoint]`` with octaves that SIFT's pyramid of this image has."""
    points = from_keypoints(keypoints)
    for point in points:
        point.octave = _clamp_octave(point.octave, min(image.shape))
    return points


def _clamp_octave(packed: int, side: int) -> int:
    last = int(math.log2(max(4, side))) - 2
    octave = (packed & 255) - 256 if packed & 128 else packed & 255
    return packed if octave <= last else (max(last, 0) & 255) | (LAYERS_PER_OCTAVE << 8)

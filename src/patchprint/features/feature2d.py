"""A drop-in replacement for ``cv2.SIFT_create()``: detector and descriptor with the interface of ``cv2.Feature2D``."""

from functools import partial
from typing import Any

import numpy as np
import torch

from patchprint.common.errors import require
from patchprint.common.types import Keypoints, KeypointsLike
from patchprint.detectors import MAX_KEYPOINTS, detect
from patchprint.features.model import DEFAULT_MODEL, ModelLike, load
from patchprint.interop import images, opencv


class Feature2D:
    """Detects and describes with OpenCV's types and OpenCV's method names.

    >>> feature = Feature2D("patchprint")                                # doctest: +SKIP
    >>> keypoints, descriptors = feature.detectAndCompute(image, None)     # doctest: +SKIP
    >>> matches = cv2.BFMatcher(feature.defaultNorm(), crossCheck=True).match(descriptors, other)  # doctest: +SKIP

    Images are uint8 (H, W) or (H, W, 3) in BGR order, as ``cv2.imread`` gives them.
    """

    def __init__(
        self,
        model: ModelLike = DEFAULT_MODEL,
        *,
        max_keypoints: int = MAX_KEYPOINTS,
        detector: str = "dog",
        upright: bool = False,
        spread: bool = True,
        device: str | torch.device = "cpu",
    ) -> None:
        self.model = load(model, device)
        self.upright = upright
        self._detect = partial(detect, detector=detector, max_keypoints=max_keypoints, spread=spread, upright=upright)

    def detect(self, image: np.ndarray, mask: np.ndarray | None = None) -> list[Any]:
        return opencv.from_keypoints(self._detect(_gray(image), mask=mask))

    def compute(self, image: np.ndarray, keypoints: KeypointsLike) -> tuple[list[Any], np.ndarray]:
        """Describe keypoints; returns them, unchanged and in order, and (N, D) float32 or (N, D // 8) uint8."""
        found = Keypoints.validate(keypoints)
        given = opencv.from_keypoints(found) if isinstance(keypoints, Keypoints) else list(keypoints)
        if self.upright:
            found = found.upright()
        return given, self.model.describe_keypoints(_gray(image), found).numpy()

    def detectAndCompute(
        self,
        image: np.ndarray,
        mask: np.ndarray | None = None,
        keypoints: KeypointsLike | None = None,
        useProvidedKeypoints: bool = False,
    ) -> tuple[list[Any], np.ndarray]:
        given = keypoints if useProvidedKeypoints and keypoints is not None else self.detect(image, mask)
        return self.compute(image, given)

    def descriptorSize(self) -> int:
        return self.model.width

    def descriptorType(self) -> int:
        return 0 if self.model.kind == "binary" else 5  # CV_8U, CV_32F

    def defaultNorm(self) -> int:
        cv2 = require("cv2", extra="images")
        return int(cv2.NORM_HAMMING if self.model.kind == "binary" else cv2.NORM_L2)

    def getDefaultName(self) -> str:
        return f"Feature2D.{self.model.id.name}"

    def empty(self) -> bool:
        return False


def _gray(image: np.ndarray) -> np.ndarray:
    in_color = isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[2] >= 3
    return images.read_gray(image[..., 2::-1] if in_color else image)

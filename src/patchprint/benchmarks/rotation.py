"""Robustness to rotation by 0 to 180 degrees, with oriented and upright keypoints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from patchprint.benchmarks._robustness import Robustness, RobustnessSettings
from patchprint.common.errors import UserError, require


@dataclass(frozen=True)
class Settings(RobustnessSettings):
    # Degrees between two points of the curve.
    step: float = 15.0
    # Largest distance in pixels of a right match.
    px: float = 4.0


class Rotation(Robustness):
    """Matching an image with itself turned by 0 to 180 degrees."""

    settings = Settings
    scoring = frozenset({"step", "px"})
    axis = "degrees"

    def values(self, settings: Settings) -> list[float]:
        if not 0 < settings.step <= 180:
            raise UserError(f"--step {settings.step:g} is not between 0 and 180 degrees")
        return [float(angle) for angle in np.arange(0.0, 180.0 + 1e-9, settings.step)]

    def prepared(self, image: np.ndarray) -> np.ndarray:
        """Return the largest centered disc, so that a rotation moves nothing in or out."""
        side = min(image.shape)
        top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
        return _disc(image[top : top + side, left : left + side])

    def changed(self, image: np.ndarray, value: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the square image rotated about its center by ``value`` degrees."""
        cv2 = require("cv2", extra="images")
        center = (image.shape[0] - 1) / 2
        cos, sin = math.cos(math.radians(value)), math.sin(math.radians(value))
        x, y = center - cos * center + sin * center, center - sin * center - cos * center
        homography = np.array([[cos, -sin, x], [sin, cos, y], [0, 0, 1]])
        return _disc(cv2.warpPerspective(image, homography, image.shape[::-1], flags=cv2.INTER_CUBIC)), homography


def _disc(image: np.ndarray) -> np.ndarray:
    """Blend to gray outside of the largest disc, so that its edge attracts few keypoints."""
    center = (len(image) - 1) / 2
    y, x = np.ogrid[: len(image), : len(image)]
    radius = np.hypot(x - center, y - center) / (len(image) / 2)
    weight = np.clip((1.0 - radius) / 0.1, 0.0, 1.0)
    return np.rint(weight * image + (1 - weight) * image.mean()).astype(np.uint8)

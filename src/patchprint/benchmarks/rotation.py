"""Robustness to rotation by 0 to 180 degrees, with oriented and upright keypoints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._robustness import precision_curve, read_image
from patchprint.common.errors import UserError, require


@dataclass(frozen=True)
class Settings:
    # Degrees between two points of the curve.
    step: float = 15.0
    # One of the detectors of patchprint describe.
    detector: str = "dog-published"
    # Strongest keypoints kept in each image.
    keypoints: int = 1000
    # Give every part of an image its share of the keypoints, instead of keeping the strongest.
    spread: bool = False
    # Largest distance in pixels of a right match.
    px: float = 4.0


class Rotation(Benchmark):
    """Matching an image with itself turned by 0 to 180 degrees."""

    settings = Settings
    scoring = frozenset({"step", "px"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Average precision by angle; the image is cut to its largest centered disc, so that nothing leaves or enters."""
        if not 0 < settings.step <= 180:
            raise UserError(f"--step {settings.step:g} is not between 0 and 180 degrees")
        angles = [float(a) for a in np.arange(0.0, 180.0 + 1e-9, settings.step)]
        image = _disc(_square(read_image(run)))
        return precision_curve(run, settings, "degrees", angles, image, lambda angle: turned(image, angle))

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"oriented": scores["mean_oriented"], "upright": scores["mean_upright"]}


def turned(image: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Rotate a square image about its center; returns it, and the homography (3, 3) from the original."""
    cv2 = require("cv2", extra="images")
    center = (image.shape[0] - 1) / 2
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    homography = np.array(
        [[cos, -sin, center - cos * center + sin * center], [sin, cos, center - sin * center - cos * center], [0, 0, 1]]
    )
    warped = cv2.warpPerspective(image, homography, image.shape[::-1], flags=cv2.INTER_CUBIC)
    return _disc(warped), homography


def _square(image: np.ndarray) -> np.ndarray:
    side = min(image.shape)
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    return image[top : top + side, left : left + side]


def _disc(image: np.ndarray) -> np.ndarray:
    """Gray outside of the largest disc, softly, so that its edge attracts few keypoints."""
    center = (len(image) - 1) / 2
    y, x = np.ogrid[: len(image), : len(image)]
    radius = np.hypot(x - center, y - center) / (len(image) / 2)
    weight = np.clip((1.0 - radius) / 0.1, 0.0, 1.0)
    return np.rint(weight * image + (1 - weight) * image.mean()).astype(np.uint8)

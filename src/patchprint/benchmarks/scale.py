"""Robustness to scale: an image shrunk 1 to 4 times, with oriented and upright keypoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._robustness import precision_curve, read_image
from patchprint.common.errors import UserError, require


@dataclass(frozen=True)
class Settings:
    # Points of the curve from 1x to 4x, at equal quotients.
    steps: int = 9
    # One of the detectors of patchprint describe.
    detector: str = "dog-published"
    # Strongest keypoints kept in each image.
    keypoints: int = 1000
    # Give every part of an image its share of the keypoints, instead of keeping the strongest.
    spread: bool = False
    # Largest distance of a right match, in pixels of the smaller image.
    px: float = 2.0


class Scale(Benchmark):
    """Matching an image with itself shrunk 1 to 4 times."""

    settings = Settings
    scoring = frozenset({"steps", "px"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Average precision by the factor that the second image was shrunk by."""
        if settings.steps < 2:
            raise UserError(f"--steps {settings.steps}: a curve needs at least 2 points")
        factors = [round(float(f), 4) for f in np.geomspace(1.0, 4.0, settings.steps)]
        image = read_image(run)
        return precision_curve(run, settings, "factor", factors, image, lambda factor: shrunk(image, factor))

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"oriented": scores["mean_oriented"], "upright": scores["mean_upright"]}


def shrunk(image: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Shrink an image by area averaging; returns it and the homography (3, 3) from the original."""
    cv2 = require("cv2", extra="images")
    height, width = (max(8, round(side / factor)) for side in image.shape)
    x, y = width / image.shape[1], height / image.shape[0]
    homography = np.array([[x, 0, (x - 1) / 2], [0, y, (y - 1) / 2], [0, 0, 1.0]])
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), homography

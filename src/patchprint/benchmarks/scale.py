"""Robustness to scale: an image shrunk 1 to 4 times, with oriented and upright keypoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from patchprint.benchmarks._robustness import Robustness, RobustnessSettings
from patchprint.common.errors import UserError, require


@dataclass(frozen=True)
class Settings(RobustnessSettings):
    # Points of the curve from 1x to 4x, at equal quotients.
    steps: int = 9
    # Largest distance of a right match, in pixels of the smaller image.
    px: float = 2.0


class Scale(Robustness):
    """Matching an image with itself shrunk 1 to 4 times."""

    settings = Settings
    scoring = frozenset({"steps", "px"})
    axis = "factor"

    def values(self, settings: Settings) -> list[float]:
        if settings.steps < 2:
            raise UserError(f"--steps {settings.steps}: a curve needs at least 2 points")
        return [round(float(factor), 4) for factor in np.geomspace(1.0, 4.0, settings.steps)]

    def changed(self, image: np.ndarray, value: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the image shrunk ``value`` times by area averaging."""
        cv2 = require("cv2", extra="images")
        height, width = (max(8, round(side / value)) for side in image.shape)
        x, y = width / image.shape[1], height / image.shape[0]
        homography = np.array([[x, 0, (x - 1) / 2], [0, y, (y - 1) / 2], [0, 0, 1.0]])
        return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), homography

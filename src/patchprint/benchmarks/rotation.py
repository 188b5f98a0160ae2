"""Robustness to rotation: an image against itself turned by 0 to 180 degrees, with oriented and upright keypoints.

The second image is made from the first, so the truth is exact. Scores are those of ``oxford``: average precision of nearest
neighbors, right within some pixels.
"""

import math
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from patchprint.benchmarks import oxford
from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._features import KeypointSettings, features_of
from patchprint.common.errors import UserError, require
from patchprint.interop.images import read_gray


@dataclass(frozen=True)
class Settings(KeypointSettings):
    # Strongest keypoints kept in each image.
    keypoints: int = 1000
    # Degrees between two points of the curve.
    step: float = 15.0
    # Largest distance in pixels of a right match.
    px: float = 4.0


class Rotation(Benchmark):
    """Matching an image with itself turned by 0 to 180 degrees."""

    settings = Settings
    scoring = frozenset({"step", "px"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return average precision at each angle, with and without the angles of keypoints, and the means."""
        if not 0 < settings.step <= 180:
            raise UserError(f"--step {settings.step:g} is not between 0 and 180 degrees")
        angles = [float(angle) for angle in np.arange(0.0, 180.0 + 1e-9, settings.step)]
        image = central_disc(_read(run))
        rules = oxford.Settings(detector=settings.detector, keypoints=settings.keypoints, px=settings.px)
        scores: Scores = {"degrees": angles, "oriented": [], "upright": []}
        for angle in tqdm(angles, desc="degrees", disable=None):
            other, homography = turned(image, angle)
            for name in ("oriented", "upright"):
                one, two = (
                    features_of(run, pixels, what, settings, upright=name == "upright")
                    for pixels, what in ((image, "degrees"), (other, f"degrees {angle:g}"))
                )
                scores[name].append(round(oxford.score_pair(one, two, homography, rules)["ap"], 5))
        return {**scores, **{f"mean_{name}": float(np.mean(scores[name])) for name in ("oriented", "upright")}}

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"oriented": scores["mean_oriented"], "upright": scores["mean_upright"]}


def central_disc(image: np.ndarray) -> np.ndarray:
    """Return the largest centered disc, so that a rotation moves nothing in or out."""
    side = min(image.shape)
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    return _disc(image[top : top + side, left : left + side])


def turned(image: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a square image rotated about its center, and the homography (3, 3) from the original."""
    cv2 = require("cv2", extra="images")
    center = (image.shape[0] - 1) / 2
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
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


def _read(run: Run) -> np.ndarray:
    if not run.folder.is_file():
        raise UserError(f"{run.folder} is not an image; give --data one image file")
    image = read_gray(run.folder)
    if min(image.shape) < 64:
        raise UserError(
            f"{run.folder} has {image.shape[1]} x {image.shape[0]} pixels; take an image of at least 64 x 64"
        )
    return image

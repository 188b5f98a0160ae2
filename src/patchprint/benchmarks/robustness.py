"""How matching holds up when a picture is turned (0 to 180 degrees) or shrunk (1 to 4 times), oriented and upright.

The second picture is made from the first, so the truth is exact. Scores are those of ``oxford``: average precision of
nearest neighbours, right within some pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from patchprint.benchmarks import oxford
from patchprint.benchmarks.images import Detector, features_of
from patchprint.benchmarks.setup import Setup
from patchprint.errors import UserError
from patchprint.extras import require
from patchprint.interop.images import read_gray


@dataclass(frozen=True)
class RotationSettings:
    # Degrees between two points of the curve.
    step: float = 15.0
    detector: Detector = "dog"
    # Strongest keypoints kept in each picture.
    keypoints: int = 1000
    # Largest distance in pixels of a right match.
    px: float = 4.0


@dataclass(frozen=True)
class ScaleSettings:
    # Points of the curve from 1x to 4x, at equal quotients.
    steps: int = 9
    detector: Detector = "dog"
    # Strongest keypoints kept in each picture.
    keypoints: int = 1000
    # Largest distance of a right match, in pixels of the smaller picture.
    px: float = 2.0


def rotation(setup: Setup, settings: RotationSettings) -> dict[str, Any]:
    """Average precision by angle; the picture is cut to its largest centred disc, so that nothing leaves or enters."""
    if not 0 < settings.step <= 180:
        raise UserError(f"--step {settings.step:g} is not between 0 and 180 degrees")
    angles = [float(a) for a in np.arange(0.0, 180.0 + 1e-9, settings.step)]
    image = _disc(_square(_read(setup)))
    return _curve(setup, settings, "degrees", angles, image, lambda angle: turned(image, angle))


def scale(setup: Setup, settings: ScaleSettings) -> dict[str, Any]:
    """Average precision by the factor that the second picture was shrunk by."""
    if settings.steps < 2:
        raise UserError(f"--steps {settings.steps}: a curve needs at least 2 points")
    factors = [round(float(f), 4) for f in np.geomspace(1.0, 4.0, settings.steps)]
    image = _read(setup)
    return _curve(setup, settings, "factor", factors, image, lambda factor: shrunk(image, factor))


def turned(image: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """A square picture turned about its centre, and the homography (3, 3) from the original."""
    cv2 = require("cv2", extra="images")
    center = (image.shape[0] - 1) / 2
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    homography = np.array(
        [[cos, -sin, center - cos * center + sin * center], [sin, cos, center - sin * center - cos * center], [0, 0, 1]]
    )
    warped = cv2.warpPerspective(image, homography, image.shape[::-1], flags=cv2.INTER_CUBIC)
    return _disc(warped), homography


def shrunk(image: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """A smaller copy, averaged over areas, and the homography (3, 3) from the original; pixel centres stay in place."""
    cv2 = require("cv2", extra="images")
    height, width = (max(8, round(side / factor)) for side in image.shape)
    x, y = width / image.shape[1], height / image.shape[0]
    homography = np.array([[x, 0, (x - 1) / 2], [0, y, (y - 1) / 2], [0, 0, 1.0]])
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), homography


def _curve(
    setup: Setup,
    settings: RotationSettings | ScaleSettings,
    axis: str,
    values: Sequence[float],
    image: np.ndarray,
    change: Callable[[float], tuple[np.ndarray, np.ndarray]],
) -> dict[str, Any]:
    rules = oxford.Settings(detector=settings.detector, keypoints=settings.keypoints, px=settings.px)
    scores: dict[str, Any] = {axis: list(values), "oriented": [], "upright": []}
    for value in tqdm(values, desc=axis, disable=None):
        other, homography = change(value)
        for name in ("oriented", "upright"):
            upright = name == "upright"
            one = features_of(setup, image, axis, settings.detector, settings.keypoints, upright)
            two = features_of(setup, other, f"{axis} {value:g}", settings.detector, settings.keypoints, upright)
            scores[name].append(round(oxford.score_pair(one, two, homography, rules)["ap"], 5))
    return {
        **scores,
        "mean_oriented": float(np.mean(scores["oriented"])),
        "mean_upright": float(np.mean(scores["upright"])),
    }


def _read(setup: Setup) -> np.ndarray:
    if not setup.data.is_file():
        raise UserError(f"{setup.data} is not a picture; give --data one picture file")
    image = read_gray(setup.data)
    if min(image.shape) < 64:
        raise UserError(
            f"{setup.data} has {image.shape[1]} x {image.shape[0]} pixels; take a picture of at least 64 x 64"
        )
    return image


def _square(image: np.ndarray) -> np.ndarray:
    side = min(image.shape)
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    return image[top : top + side, left : left + side]


def _disc(image: np.ndarray) -> np.ndarray:
    """Grey outside of the largest disc, softly, so that its edge attracts few keypoints."""
    center = (len(image) - 1) / 2
    y, x = np.ogrid[: len(image), : len(image)]
    radius = np.hypot(x - center, y - center) / (len(image) / 2)
    weight = np.clip((1.0 - radius) / 0.1, 0.0, 1.0)
    return np.rint(weight * image + (1 - weight) * image.mean()).astype(np.uint8)

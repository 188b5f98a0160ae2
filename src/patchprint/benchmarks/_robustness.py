"""Base of `rotation` and `scale`: an image against changed copies of itself, with oriented and upright keypoints.

The second image is made from the first, so the truth is exact. Scores are those of ``oxford``: average precision of nearest
neighbors, right within some pixels.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from patchprint.benchmarks import oxford
from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._features import KeypointSettings, features_of
from patchprint.common.errors import UserError
from patchprint.interop.images import read_gray


@dataclass(frozen=True)
class RobustnessSettings(KeypointSettings):
    """How keypoints are found."""

    # Strongest keypoints kept in each image.
    keypoints: int = 1000


class Robustness(Benchmark):
    """Average precision of an image against its changed copies, with and without the angles of keypoints."""

    axis: ClassVar[str]  # what the score is a function of

    @abstractmethod
    def values(self, settings: Any) -> list[float]:
        """Return the points of the curve."""

    @abstractmethod
    def changed(self, image: np.ndarray, value: float) -> tuple[np.ndarray, np.ndarray]:
        """Return a changed copy, and the homography (3, 3) from the original."""

    def prepared(self, image: np.ndarray) -> np.ndarray:
        """Return the original, prepared for the changes."""
        return image

    def evaluate(self, run: Run, settings: Any) -> Scores:
        """Return average precision at each point of the curve, and the means."""
        values = self.values(settings)
        image = self.prepared(_read(run))
        rules = oxford.Settings(detector=settings.detector, keypoints=settings.keypoints, px=settings.px)
        scores: Scores = {self.axis: values, "oriented": [], "upright": []}
        for value in tqdm(values, desc=self.axis, disable=None):
            other, homography = self.changed(image, value)
            for name in ("oriented", "upright"):
                one, two = (
                    features_of(run, pixels, what, settings, upright=name == "upright")
                    for pixels, what in ((image, self.axis), (other, f"{self.axis} {value:g}"))
                )
                scores[name].append(round(oxford.score_pair(one, two, homography, rules)["ap"], 5))
        return {**scores, **{f"mean_{name}": float(np.mean(scores[name])) for name in ("oriented", "upright")}}

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"oriented": scores["mean_oriented"], "upright": scores["mean_upright"]}


def _read(run: Run) -> np.ndarray:
    if not run.folder.is_file():
        raise UserError(f"{run.folder} is not an image; give --data one image file")
    image = read_gray(run.folder)
    if min(image.shape) < 64:
        raise UserError(
            f"{run.folder} has {image.shape[1]} x {image.shape[0]} pixels; take an image of at least 64 x 64"
        )
    return image

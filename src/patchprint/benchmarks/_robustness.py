"""Shared by `rotation` and `scale`: an image against changed copies of itself, oriented and upright.

The second image is made from the first, so the truth is exact. Scores are those of ``oxford``: average precision of nearest
neighbors, right within some pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from patchprint.benchmarks import oxford
from patchprint.benchmarks._benchmark import Run
from patchprint.benchmarks._features import features_of
from patchprint.common.errors import UserError
from patchprint.interop.image_files import read_gray


def precision_curve(
    run: Run,
    settings: Any,
    axis: str,
    values: Sequence[float],
    image: np.ndarray,
    change: Callable[[float], tuple[np.ndarray, np.ndarray]],
) -> dict[str, Any]:
    """Average precision of ``image`` against its changed copies, with and without the angles of keypoints."""
    rules = oxford.Settings(detector=settings.detector, keypoints=settings.keypoints, px=settings.px)
    scores: dict[str, Any] = {axis: list(values), "oriented": [], "upright": []}
    for value in tqdm(values, desc=axis, disable=None):
        other, homography = change(value)
        for name in ("oriented", "upright"):
            upright = name == "upright"
            one = features_of(run, image, axis, settings.detector, settings.keypoints, settings.spread, upright)
            two = features_of(
                run, other, f"{axis} {value:g}", settings.detector, settings.keypoints, settings.spread, upright
            )
            scores[name].append(round(oxford.score_pair(one, two, homography, rules)["ap"], 5))
    return {
        **scores,
        "mean_oriented": float(np.mean(scores["oriented"])),
        "mean_upright": float(np.mean(scores["upright"])),
    }


def read_image(run: Run) -> np.ndarray:
    if not run.folder.is_file():
        raise UserError(f"{run.folder} is not an image; give --data one image file")
    image = read_gray(run.folder)
    if min(image.shape) < 64:
        raise UserError(
            f"{run.folder} has {image.shape[1]} x {image.shape[0]} pixels; take an image of at least 64 x 64"
        )
    return image

"""Geometric verification: which matches agree with one homography or one fundamental matrix."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import torch

from patchprint.extras import require
from patchprint.types import Features, Matches

Kind = Literal["auto", "homography", "fundamental"]
THRESHOLD = {"homography": 3.0, "fundamental": 1.5}  # pixels
FEWEST = {"homography": 4, "fundamental": 8}
PLANAR = 0.8  # COLMAP's rule: where a homography explains so large a part of the epipolar inliers, it is the model


def verify(
    a: Features,
    b: Features,
    matches: Matches,
    kind: Kind = "auto",
    threshold: float | None = None,
    max_iterations: int = 10_000,
    confidence: float = 0.9999,
) -> Matches:
    """Find the geometry with OpenCV's MAGSAC++ and mark the inliers; the same input gives the same result.

    Args:
        kind: "homography" (flat scenes, turning cameras), "fundamental" (everything else), or "auto": both, and the
            homography if it explains at least 0.8 of what the fundamental matrix explains.
        threshold: largest error of an inlier in pixels; 3 for homographies, 1.5 for fundamental matrices.

    Returns:
        The same matches with ``inliers``, ``model`` (None where too few agree) and ``geometry``.
    """
    if kind not in ("auto", *THRESHOLD):
        raise ValueError(f"unknown geometry {kind!r}; known are auto, homography and fundamental")
    if kind == "auto":
        flat = verify(a, b, matches, "homography", threshold, max_iterations, confidence)
        general = verify(a, b, matches, "fundamental", threshold, max_iterations, confidence)
        return flat if (flat.num_inliers or 0) >= PLANAR * (general.num_inliers or 0) else general
    cv2 = require("cv2", extra="images")
    points_a = a.keypoints.xy.cpu().numpy()[matches.indices[:, 0].cpu().numpy()].astype(np.float64)
    points_b = b.keypoints.xy.cpu().numpy()[matches.indices[:, 1].cpu().numpy()].astype(np.float64)
    model, inliers = None, None
    if len(matches) >= FEWEST[kind]:
        estimate = cv2.findHomography if kind == "homography" else cv2.findFundamentalMat
        settings = (cv2.USAC_MAGSAC, THRESHOLD[kind] if threshold is None else threshold)
        try:
            if kind == "homography":
                model, inliers = estimate(points_a, points_b, *settings, None, max_iterations, confidence)
            else:
                model, inliers = estimate(points_a, points_b, *settings, confidence, max_iterations)
        except cv2.error:  # all points in one place or on one line
            model = None
    if model is None or inliers is None or np.shape(model) != (3, 3):
        nothing = torch.zeros(len(matches), dtype=torch.bool)
        return dataclasses.replace(matches, inliers=nothing, model=None, geometry=kind)
    agreeing = torch.from_numpy(inliers.reshape(-1) != 0)
    return dataclasses.replace(matches, inliers=agreeing, model=torch.from_numpy(model), geometry=kind)

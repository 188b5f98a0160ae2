"""Geometric verification: which matches agree with one homography or one fundamental matrix."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import torch

from patchprint.errors import UserError
from patchprint.extras import require
from patchprint.geometry import project
from patchprint.types import Features, Matches

Kind = Literal["auto", "homography", "fundamental"]
THRESHOLD = {"homography": 3.0, "fundamental": 1.5}  # pixels
FEWEST = {"homography": 4, "fundamental": 8}
Points = np.ndarray  # (M, 2) float64
Estimate = tuple[np.ndarray, np.ndarray]  # model (3, 3), inliers (M,) bool
_POLISHES = 10
# COLMAP's rule, a homography that explains so large a part of the epipolar inliers is the model, with 0.7 for its 0.8, since a
# homography's inliers are counted in both pictures here. Facades lie near the limit and may fall on either side.
PLANAR = 0.7


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
            homography if it explains at least 0.7 of what the fundamental matrix explains.
        threshold: largest error of an inlier in pixels; 3 for homographies (in each of the pictures), 1.5 for fundamental
            matrices.

    Returns:
        The same matches with ``inliers``, ``model`` (None where too few agree) and ``geometry``.
    """
    if kind not in ("auto", *THRESHOLD):
        raise UserError(f"unknown geometry {kind!r}; known are auto, homography and fundamental")
    if kind == "auto":
        flat = verify(a, b, matches, "homography", threshold, max_iterations, confidence)
        general = verify(a, b, matches, "fundamental", threshold, max_iterations, confidence)
        return flat if (flat.num_inliers or 0) >= PLANAR * (general.num_inliers or 0) else general
    points_a = a.keypoints.xy.cpu().numpy()[matches.indices[:, 0].cpu().numpy()].astype(np.float64)
    points_b = b.keypoints.xy.cpu().numpy()[matches.indices[:, 1].cpu().numpy()].astype(np.float64)
    estimate = _homography if kind == "homography" else _fundamental
    limit = THRESHOLD[kind] if threshold is None else threshold
    found = None
    if len(matches) >= FEWEST[kind]:
        found = estimate(points_a, points_b, limit, max_iterations, confidence)
    if found is None:
        nothing = torch.zeros(len(matches), dtype=torch.bool)
        return dataclasses.replace(matches, inliers=nothing, model=None, geometry=kind)
    model, agreeing = found
    return dataclasses.replace(
        matches, inliers=torch.from_numpy(agreeing), model=torch.from_numpy(model), geometry=kind
    )


def _fundamental(a: Points, b: Points, limit: float, max_iterations: int, confidence: float) -> Estimate | None:
    cv2 = require("cv2", extra="images")
    try:
        model, inliers = cv2.findFundamentalMat(a, b, cv2.USAC_MAGSAC, limit, confidence, max_iterations)
    except cv2.error:  # all points in one place or on one line
        return None
    return (model, inliers.reshape(-1) != 0) if np.shape(model) == (3, 3) else None


def _homography(a: Points, b: Points, limit: float, max_iterations: int, confidence: float) -> Estimate | None:
    """MAGSAC++ from a to b and from b to a, each polished; the one with more inliers.

    The estimator measures errors in the second picture alone. Where a homography shrinks a region, wrong matches look right
    there, as on Oxford's graf. Counting both directions shows them.
    """
    cv2 = require("cv2", extra="images")
    best: Estimate | None = None
    for first, second, inverted in ((a, b, False), (b, a, True)):
        try:
            model, _ = cv2.findHomography(first, second, cv2.USAC_MAGSAC, limit, None, max_iterations, confidence)
        except cv2.error:  # all points in one place or on one line
            continue
        if not _usable(model):
            continue
        candidate = _polish(np.linalg.inv(model) if inverted else model, a, b, limit)
        if best is None or candidate[1].sum() > best[1].sum():
            best = candidate
    return best


def _polish(model: np.ndarray, a: Points, b: Points, limit: float) -> Estimate:
    """Least squares on the inliers, again and again while their number grows."""
    cv2 = require("cv2", extra="images")
    best, inliers = model / model[2, 2], _agree_both_ways(model, a, b, limit)
    for _ in range(_POLISHES):
        if inliers.sum() < FEWEST["homography"]:
            break
        refined, _ = cv2.findHomography(a[inliers], b[inliers], 0)
        if not _usable(refined):
            break
        agreeing = _agree_both_ways(refined, a, b, limit)
        if agreeing.sum() <= inliers.sum():
            break
        best, inliers = refined, agreeing
    return best, inliers


def _agree_both_ways(model: np.ndarray, a: Points, b: Points, limit: float) -> np.ndarray:
    """Which matches are at most ``limit`` pixels off in the second picture and in the first, (M,) bool."""
    return (_errors(model, a, b) <= limit) & (_errors(np.linalg.inv(model), b, a) <= limit)


def _errors(model: np.ndarray, a: Points, b: Points) -> np.ndarray:
    return np.linalg.norm(project(model, a) - b, axis=1)


def _usable(model: np.ndarray | None) -> bool:
    return model is not None and np.shape(model) == (3, 3) and np.linalg.matrix_rank(model) == 3 and model[2, 2] != 0

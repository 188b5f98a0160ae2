"""Two-view geometry: verification of matches by homography or fundamental matrix, and relative pose."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np
import torch

from patchprint.common.errors import UserError, require
from patchprint.matching.same_place import consistent_inliers, exceeds_chance, judge, weigh
from patchprint.ops.geometry import epipolar_errors, homography_errors, project
from patchprint.types import Features, Matches

Geometry = Literal["homography", "fundamental"]
Kind = Literal["auto", "homography", "fundamental"]
GEOMETRIES: tuple[Geometry, ...] = ("homography", "fundamental")
THRESHOLD = {"homography": 3.0, "fundamental": 1.5}  # pixels
FEWEST = {"homography": 4, "fundamental": 8}
FEWEST_FOR_POSE = 5
Points = np.ndarray  # (M, 2) float64
Estimate = tuple[np.ndarray, np.ndarray]  # model (3, 3), inliers (M,) bool
_POLISHES = 10
# Of GRIC: a match is two points of the plane; the surface on which matches lie; the parameters of a geometry.
_DATA_DIMENSION, _MODEL_DIMENSION, _PARAMETERS = (
    4,
    {"homography": 2, "fundamental": 3},
    {"homography": 8, "fundamental": 7},
)


def verify(
    a: Features,
    b: Features,
    matches: Matches,
    geometry: Kind = "auto",
    *,
    threshold: float | None = None,
    max_iterations: int = 10_000,
    confidence: float = 0.9999,
) -> Matches:
    """Decide which matches agree with one geometry, and whether the images show the same place; deterministic.

    Args:
        geometry: "homography" (flat scenes, turning cameras), "fundamental" (everything else), or "auto": both, and the one
            that `gric` prefers, if both are more than chance.
        threshold: largest error of an inlier in pixels; 3 for homographies (in each of the images), 1.5 for fundamental
            matrices.

    Returns:
        The same matches with ``verdict``, ``inliers``, ``model`` and ``geometry``. Where no more agree than by chance there is
        no model and no inlier.

    Raises:
        UserError: for an unknown geometry, and for matches of other features.
    """
    if geometry not in ("auto", *THRESHOLD):
        raise UserError(f"unknown geometry {geometry!r}; known are auto, homography and fundamental")
    judged = []
    for each in GEOMETRIES if geometry == "auto" else (geometry,):
        found = estimate_geometry(
            a, b, matches, each, threshold=threshold, max_iterations=max_iterations, confidence=confidence
        )
        verdict = judge(weigh(a, b, found, THRESHOLD[each] if threshold is None else threshold))
        judged.append(dataclasses.replace(found, verdict=verdict))
    trusted = [found for found in judged if found.verdict and exceeds_chance(found.verdict)]
    if len(trusted) == 2:
        return _better(a, b, trusted[0], trusted[1], threshold or THRESHOLD["fundamental"])
    if trusted:
        return trusted[0]
    likeliest = max(judged, key=lambda found: found.verdict.probability if found.verdict else 0.0)
    return _without_model(likeliest, likeliest.geometry)


def estimate_geometry(
    a: Features,
    b: Features,
    matches: Matches,
    kind: Geometry,
    *,
    threshold: float | None = None,
    max_iterations: int = 10_000,
    confidence: float = 0.9999,
) -> Matches:
    """Estimate a geometry with OpenCV's MAGSAC++, however few inliers it has; arguments as for `verify`.

    Returns:
        The same matches with ``inliers``, ``model`` (None where not even the fewest agree) and ``geometry``.
    """
    points_a, points_b = _matched_points(a, b, matches)
    estimate = _homography if kind == "homography" else _fundamental
    limit = THRESHOLD[kind] if threshold is None else threshold
    found = None
    if len(matches) >= FEWEST[kind]:
        found = estimate(points_a, points_b, limit, max_iterations, confidence)
    if found is None:
        return _without_model(matches, kind)
    model, agreeing = found
    return dataclasses.replace(
        matches, inliers=torch.from_numpy(agreeing), model=torch.from_numpy(model), geometry=kind
    )


def estimate_pose(
    a: Features,
    b: Features,
    matches: Matches,
    intrinsics_a: np.ndarray,
    intrinsics_b: np.ndarray,
    *,
    threshold: float = THRESHOLD["fundamental"],
    max_iterations: int = 10_000,
    confidence: float = 0.9999,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Estimate the pose of the second camera relative to the first, with OpenCV's MAGSAC++; arguments as for `verify`.

    Where all matches lie on one plane two answers fit, and which of them is given is chance.

    Shape:
        intrinsics (3, 3), for pixels in our convention -> rotation (3, 3) and direction (3,) of unit length, such that a
        point x of the first camera's space is ``rotation @ x + s * direction`` in the second's, with an unknown s > 0; None
        where not even the fewest matches agree.
    """
    cv2 = require("cv2", extra="images")
    if len(matches) < FEWEST_FOR_POSE:
        return None
    # Both images as one camera would see them, so that the threshold is in pixels.
    focal = float(np.mean([intrinsics[i, i] for intrinsics in (intrinsics_a, intrinsics_b) for i in (0, 1)]))
    camera = np.diag([focal, focal, 1.0])
    points_a, points_b = (
        project(camera @ np.linalg.inv(intrinsics), points)
        for intrinsics, points in zip((intrinsics_a, intrinsics_b), _matched_points(a, b, matches), strict=True)
    )
    try:
        essential, inliers = cv2.findEssentialMat(
            points_a, points_b, camera, cv2.USAC_MAGSAC, confidence, threshold, max_iterations
        )
        if np.shape(essential) != (3, 3):
            return None
        _, rotation, direction, _ = cv2.recoverPose(essential, points_a, points_b, camera, mask=inliers)
    except cv2.error:  # all points in one place or on one line
        return None
    return rotation, direction[:, 0]


def gric(errors: np.ndarray, kind: str, noise: float) -> float:
    """Torr's geometric robust information criterion; the smaller the better.

    Args:
        errors: Sampson errors (N,) in pixels.
        noise: standard deviation of a coordinate in pixels.

    With n matches of r = 4 coordinates, a surface of dimension d with k parameters, and Sampson errors e of deviation s::

        sum(min(e^2 / s^2, 2 (r - d))) + n d ln(r) + k ln(r n)

    (P. H. S. Torr, Geometric motion segmentation and model selection, Phil. Trans. R. Soc. A 356, 1998.)
    """
    count, dimension = len(errors), _MODEL_DIMENSION[kind]
    misfit = np.minimum((errors / noise) ** 2, 2 * (_DATA_DIMENSION - dimension)).sum()
    positions = count * dimension * math.log(_DATA_DIMENSION)
    return float(misfit + positions + _PARAMETERS[kind] * math.log(_DATA_DIMENSION * max(count, 1)))


def _without_model(matches: Matches, kind: str | None) -> Matches:
    return dataclasses.replace(matches, inliers=torch.zeros(len(matches), dtype=torch.bool), model=None, geometry=kind)


def _better(a: Features, b: Features, flat: Matches, general: Matches, limit: float) -> Matches:
    """Choose the homography or the fundamental matrix by GRIC, on the matches that agree with either.

    Only those count whose scale and angle agree too: others may well be on an epipolar line by accident.
    """
    assert flat.model is not None and general.model is not None
    agreeing = consistent_inliers(a, b, flat) | consistent_inliers(a, b, general)
    points_a, points_b = (points[agreeing] for points in _matched_points(a, b, flat))
    noise = limit / 1.96  # 95 of 100 distances from a line are below this limit (Hartley and Zisserman, section 4.7)
    # Matches that agree with neither are left out: GRIC would count them for the fundamental matrix, whose outliers cost less.
    of_flat = gric(homography_errors(flat.model.numpy(), points_a, points_b), "homography", noise)
    of_general = gric(epipolar_errors(general.model.numpy(), points_a, points_b), "fundamental", noise)
    return flat if of_flat <= of_general else general


def _matched_points(a: Features, b: Features, matches: Matches) -> tuple[Points, Points]:
    points_a, points_b = matches.points(a, b)
    return points_a.cpu().double().numpy(), points_b.cpu().double().numpy()


def _fundamental(a: Points, b: Points, limit: float, max_iterations: int, confidence: float) -> Estimate | None:
    cv2 = require("cv2", extra="images")
    try:
        model, inliers = cv2.findFundamentalMat(a, b, cv2.USAC_MAGSAC, limit, confidence, max_iterations)
    except cv2.error:  # all points in one place or on one line
        return None
    return (model, inliers.reshape(-1) != 0) if np.shape(model) == (3, 3) else None


def _homography(a: Points, b: Points, limit: float, max_iterations: int, confidence: float) -> Estimate | None:
    """MAGSAC++ from a to b and from b to a, each polished; the one with more inliers.

    The estimator measures errors in the second image alone. Where a homography shrinks a region, wrong matches look right
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
    best, inliers = model / model[2, 2], _inliers_both_ways(model, a, b, limit)
    for _ in range(_POLISHES):
        if inliers.sum() < FEWEST["homography"]:
            break
        refined, _ = cv2.findHomography(a[inliers], b[inliers], 0)
        if not _usable(refined):
            break
        agreeing = _inliers_both_ways(refined, a, b, limit)
        if agreeing.sum() <= inliers.sum():
            break
        best, inliers = refined, agreeing
    return best, inliers


def _inliers_both_ways(model: np.ndarray, a: Points, b: Points, limit: float) -> np.ndarray:
    """Test which matches are at most ``limit`` pixels off in both images, (M,) bool."""
    return (_errors(model, a, b) <= limit) & (_errors(np.linalg.inv(model), b, a) <= limit)


def _errors(model: np.ndarray, a: Points, b: Points) -> np.ndarray:
    return np.linalg.norm(project(model, a) - b, axis=1)


def _usable(model: np.ndarray | None) -> bool:
    return model is not None and np.shape(model) == (3, 3) and np.linalg.matrix_rank(model) == 3 and model[2, 2] != 0

"""Verify matches by homography or fundamental matrix, decide whether two images show the same place, estimate relative poses.

Some matches agree with some geometry in any two images. `Evidence` counts how many do, in position and in scale and angle, and
how likely that is for keypoints paired at random; a logistic function, fitted on pairs of images that do and do not show the
same place (``perf/verdict``), makes a probability of it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from patchprint.common.errors import UserError, require
from patchprint.common.types import Features, Keypoints, Matches, Verdict
from patchprint.ops.geometry import epipolar_errors, fundamental_matrix, homography_errors, project

Geometry = Literal["homography", "fundamental"]
Kind = Literal["auto", "homography", "fundamental"]
GEOMETRIES: tuple[Geometry, ...] = ("homography", "fundamental")
THRESHOLD = {"homography": 3.0, "fundamental": 1.5}  # pixels
FEWEST = {"homography": 4, "fundamental": 8}
FEWEST_FOR_POSE = 5
Points = np.ndarray  # (M, 2) float64
Estimate = tuple[np.ndarray, np.ndarray]  # model (3, 3), inliers (M,) bool
_ITERATIONS, _CONFIDENCE = 10_000, 0.9999
_FIT_STEPS, _FIT_DELTA, _FARTHEST = 20, 1e-6, 1e4
# Of GRIC: a match is two points of the plane; the surface on which matches lie; the parameters of a geometry.
_DATA_DIMENSION, _MODEL_DIMENSION = 4, {"homography": 2, "fundamental": 3}
_PARAMETERS = {"homography": 8, "fundamental": 7}
_MOST_NOISE = 5.0
FITTED = Path(__file__).with_name("same_place.json")
SAMPLE = {"homography": 4, "fundamental": 7}  # matches that any such geometry can be made to agree with
MAX_TURN, MAX_ZOOM = math.radians(30), math.log(2)  # largest differences from what most inliers say
_KEYPOINTS = 400  # of each image, for the pairs at random
_CELLS = 32  # along an image, of which each counts once where matches were chosen by how well their neighbors agree


def verify(
    a: Features, b: Features, matches: Matches, geometry: Kind = "auto", *, threshold: float | None = None
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
        found = estimate_geometry(a, b, matches, each, threshold=threshold)
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
    a: Features, b: Features, matches: Matches, kind: Geometry, *, threshold: float | None = None
) -> Matches:
    """Estimate a geometry with OpenCV's MAGSAC++, however few inliers it has; arguments as for `verify`.

    Returns:
        The same matches with ``inliers``, ``model`` (None where not even the fewest agree) and ``geometry``.
    """
    points, limit = _matched_points(a, b, matches), THRESHOLD[kind] if threshold is None else threshold
    if len(matches) < FEWEST[kind]:
        found = None
    elif kind == "homography":
        found = _homography(*points, _noise(a, b, matches), limit)
    else:
        found = _fundamental(*points, limit)
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
) -> tuple[np.ndarray, np.ndarray] | None:
    """Estimate the pose of the second camera relative to the first; arguments as for `verify`.

    OpenCV's MAGSAC++ finds an essential matrix. Where most matches lie on one plane, it is one of many that agree with them, so
    the poses that follow from the homography of the plane are candidates too. All are fitted to the matches, and the one that
    explains them best is taken.

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
    points, noise = (points_a, points_b), _noise(a, b, matches)
    best, least = None, math.inf
    try:
        essential, inliers = cv2.findEssentialMat(*points, camera, cv2.USAC_MAGSAC, _CONFIDENCE, threshold, _ITERATIONS)
        if np.shape(essential) != (3, 3):
            return None
        _, rotation, direction, _ = cv2.recoverPose(essential, *points, camera, mask=inliers)
        for start in [(rotation, direction[:, 0]), *_poses_of_plane(*points, noise, camera)]:
            matrix, loss = _fit_pose(*start, *points, camera, noise * threshold / 1.5)
            agree = epipolar_errors(matrix, *points) < threshold
            essential, mask = camera @ matrix @ camera, agree.astype(np.uint8)[:, None]
            seen, rotation, direction, *_ = cv2.recoverPose(essential, *points, camera, distanceThresh=1e9, mask=mask)
            loss += agree.sum() - seen  # those behind a camera
            if loss < least:
                best, least = (rotation, direction[:, 0]), loss
    except cv2.error:  # all points in one place or on one line
        return best
    return best


def _poses_of_plane(a: Points, b: Points, noise: np.ndarray, camera: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the poses that follow from the homography of most matches, but for the sign of the direction."""
    found = _homography(a, b, noise, THRESHOLD["homography"]) if len(a) >= FEWEST["homography"] else None
    if found is None:
        return []
    _, rotations, shifts, _ = require("cv2", extra="images").decomposeHomographyMat(found[0], camera)
    return [(turn, shift[:, 0]) for turn, shift in list(zip(rotations, shifts, strict=True))[::2] if shift.any()]


def _fit_pose(
    rotation: np.ndarray, direction: np.ndarray, a: Points, b: Points, camera: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, float]:
    """Fit a pose to matches; returns its fundamental matrix and the loss."""
    rotate = require("cv2", extra="images").Rodrigues
    across = np.linalg.svd(direction[:, None])[0][:, 1:]  # directions at right angles

    def fundamental(change: np.ndarray) -> np.ndarray:
        moved = direction / np.linalg.norm(direction) + across @ change[3:]
        return fundamental_matrix(rotate(change[:3])[0] @ rotation, moved, camera, camera)

    change, loss = fit_robustly(lambda change: epipolar_errors(fundamental(change), a, b)[:, None], 5, scale)
    return fundamental(change), loss


def fit_robustly(
    residuals: Callable[[np.ndarray], np.ndarray], size: int, scale: float | np.ndarray
) -> tuple[np.ndarray, float]:
    """Minimize the loss of Geman and McClure, ``sum(r^2 / (r^2 + scale^2))``, from zero on; Levenberg and Marquardt.

    Wrong matches weigh nothing, so that none has to be told from the right ones before.

    Args:
        residuals: parameters (size,) -> (M, R), where r is the length of a row.
        scale: of all residuals or of each, (M,).

    Returns:
        The parameters and the loss.
    """

    def loss(values: np.ndarray) -> float:
        squared = (values**2).sum(1) / scale**2
        return float((squared / (1 + squared)).sum())

    limited = partial(np.clip, a_min=-_FARTHEST, a_max=_FARTHEST)  # errors are infinite beyond a horizon
    at, damping = np.zeros(size), 1e-3
    here = limited(residuals(at))
    least = loss(here)
    for _ in range(_FIT_STEPS):
        slope = np.stack([(limited(residuals(at + step)) - here) / _FIT_DELTA for step in _FIT_DELTA * np.eye(size)], 2)
        weight = (1 + (here**2).sum(1) / scale**2) ** -2 / scale**2
        normal = np.einsum("m,mri,mrj->ij", weight, slope, slope)
        downhill = np.einsum("m,mri,mr->i", weight, slope, here)
        for damping in damping * 10.0 ** np.arange(6):  # noqa: B020
            try:
                step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-12), -downhill)
            except np.linalg.LinAlgError:
                return at, least
            values = limited(residuals(at + step))
            if loss(values) < least:
                break
        else:
            return at, least
        gain = least - loss(values)
        at, here, least, damping = at + step, values, least - gain, max(damping / 10, 1e-9)
        if gain < 1e-6 * least:
            break
    return at, least


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


@dataclass(frozen=True)
class Evidence:
    """Evidence that two images show the same place.

    ``matches`` and ``agreeing`` count places: a keypoint with two angles counts once. A learned matcher chooses matches that
    agree with those of their neighbors, so that all matches of one small ornament are one piece of evidence: where matches
    have scores, all within a cell of 1/32 of the longer side of the image are one place. ``agreeing`` are the inliers that were
    also turned and zoomed alike. ``by_position`` and ``by_frame`` are the chances that two keypoints taken at random agree with
    the geometry, and with the turn and the zoom; ``by_frame`` is 1 where keypoints have no scales and angles.
    """

    kind: str | None
    matches: int = 0
    agreeing: int = 0
    by_position: float = 1.0
    by_frame: float = 1.0

    @property
    def beyond_sample(self) -> int:
        """Inliers beyond the minimal sample of the geometry."""
        return max(self.agreeing - SAMPLE[self.kind], 0) if self.kind else 0

    @property
    def accidents(self) -> float:
        """Decimal logarithm of how many geometries as good as this one are expected where all matches are wrong.

        The number of false alarms of L. Moisan and B. Stival (A probabilistic criterion to detect rigid point matches
        between two images and estimate the fundamental matrix, IJCV 57, 2004), with frames counted too; infinite where no
        more matches agree than a geometry can be made of.
        """
        if not self.beyond_sample:
            return math.inf
        sample = self.agreeing - self.beyond_sample
        choices = math.log10(max(self.matches - sample, 1)) + _log_choose(self.matches, self.agreeing)
        choices += _log_choose(self.agreeing, sample)
        by_position = self.beyond_sample * math.log10(self.by_position)
        return choices + by_position + (self.agreeing - 1) * math.log10(self.by_frame)

    def numbers(self) -> dict[str, float]:
        """Inputs of the logistic function by name; used only where there are inliers beyond the minimal sample."""
        return {
            "not_by_accident": min(max(-self.accidents, -20.0), 30.0),
            "beyond_sample": math.log1p(self.beyond_sample),
            "frames": math.log1p(self.agreeing) * -math.log10(self.by_frame),
            "fundamental": float(self.kind == "fundamental"),
        }


def weigh(a: Features, b: Features, found: Matches, limit: float) -> Evidence:
    """Compute the evidence in matches whose geometry was estimated; ``limit``: largest error of an inlier in pixels."""
    if found.model is None or found.inliers is None or not found.inliers.any():
        return Evidence(found.geometry)
    model, kind, inliers = found.model.cpu().numpy(), str(found.geometry), found.inliers.cpu().numpy()
    rows_a, rows_b = found.indices.cpu().numpy().T
    (xy_a, frames_a), (xy_b, frames_b) = _positions_and_frames(a.keypoints), _positions_and_frames(b.keypoints)
    agreeing, common = _consistent_inliers(frames_b[rows_b] - frames_a[rows_a], inliers)
    some_a, some_b = _evenly(len(a)), _evenly(len(b))
    cell_a, cell_b = (limit if found.score is None else max(each.image_size) / _CELLS for each in (a, b))
    near = _agree(model, kind, xy_a[some_a], xy_b[some_b], limit)
    alike = _alike(frames_b[some_b] - frames_a[some_a][:, None], common)
    return Evidence(
        kind=kind,
        matches=min(_places(xy_a[rows_a], cell_a), _places(xy_b[rows_b], cell_b)),
        agreeing=min(_places(xy_a[rows_a[agreeing]], cell_a), _places(xy_b[rows_b[agreeing]], cell_b)),
        # As if one pair more had agreed: so few pairs cannot show that a chance is zero.
        by_position=(int(near.sum()) + 1) / (near.size + 1),
        by_frame=(int(alike.sum()) + 1) / (alike.size + 1),
    )


def judge(evidence: Evidence) -> Verdict:
    """Decide "same" where the probability is beyond a limit, else "unsure".

    A low probability is no evidence of different places: wrong geometries of one place, seen in very different ways, are
    as improbable as those of two.
    """
    fitted = _fitted()
    if not evidence.beyond_sample:
        return Verdict("unsure", fitted["without_evidence"])
    numbers = evidence.numbers()
    logit = fitted["constant"] + sum(weight * numbers[name] for name, weight in fitted["weights"].items())
    probability = 1 / (1 + math.exp(-min(max(logit, -30.0), 30.0)))
    return Verdict("same" if probability >= fitted["same_from"] else "unsure", probability)


def exceeds_chance(verdict: Verdict) -> bool:
    """Whether the evidence behind a verdict is enough to keep the geometry."""
    return verdict.probability >= _fitted()["different_below"]


def _without_model(matches: Matches, kind: str | None) -> Matches:
    return dataclasses.replace(matches, inliers=torch.zeros(len(matches), dtype=torch.bool), model=None, geometry=kind)


def _better(a: Features, b: Features, flat: Matches, general: Matches, limit: float) -> Matches:
    """Choose the homography or the fundamental matrix by GRIC, on the matches that agree with either.

    Only those count whose scale and angle agree too: others may well be on an epipolar line by accident.
    """
    assert flat.model is not None and general.model is not None
    rows_a, rows_b = flat.indices.cpu().numpy().T
    change = _positions_and_frames(b.keypoints)[1][rows_b] - _positions_and_frames(a.keypoints)[1][rows_a]
    agreeing = np.zeros(len(flat), dtype=bool)
    for found in (flat, general):
        if found.inliers is not None and found.inliers.any():
            agreeing |= _consistent_inliers(change, found.inliers.cpu().numpy())[0]
    points_a, points_b = (points[agreeing] for points in _matched_points(a, b, flat))
    noise = limit / 1.96  # 95 of 100 distances from a line are below this limit (Hartley and Zisserman, section 4.7)
    # Matches that agree with neither are left out: GRIC would count them for the fundamental matrix, whose outliers cost less.
    of_flat = gric(homography_errors(flat.model.numpy(), points_a, points_b), "homography", noise)
    of_general = gric(epipolar_errors(general.model.numpy(), points_a, points_b), "fundamental", noise)
    return flat if of_flat <= of_general else general


def _matched_points(a: Features, b: Features, matches: Matches) -> tuple[Points, Points]:
    points_a, points_b = matches.points(a, b)
    return points_a.cpu().double().numpy(), points_b.cpu().double().numpy()


def _noise(a: Features, b: Features, matches: Matches) -> np.ndarray:
    """How much less exact the positions of matches (M,) are than those of most: large keypoints are located less exactly."""
    rows_a, rows_b = matches.indices.cpu().numpy().T
    scale = np.sqrt(a.keypoints.scale.cpu().double().numpy()[rows_a] * b.keypoints.scale.cpu().double().numpy()[rows_b])
    return np.clip(scale / max(np.median(scale), 1e-9), 1, _MOST_NOISE)


def _fundamental(a: Points, b: Points, limit: float) -> Estimate | None:
    cv2 = require("cv2", extra="images")
    try:
        model, inliers = cv2.findFundamentalMat(a, b, cv2.USAC_MAGSAC, limit, _CONFIDENCE, _ITERATIONS)
    except cv2.error:  # all points in one place or on one line
        return None
    return (model, inliers.reshape(-1) != 0) if np.shape(model) == (3, 3) else None


def _homography(a: Points, b: Points, noise: np.ndarray, limit: float) -> Estimate | None:
    """MAGSAC++ from a to b and from b to a; the one with more inliers, fitted to them.

    The estimator measures errors in the second image alone. Where a homography shrinks a region, wrong matches look right
    there, as on Oxford's graf. Counting both directions shows them.
    """
    cv2 = require("cv2", extra="images")
    best: Estimate | None = None
    for first, second, inverted in ((a, b, False), (b, a, True)):
        try:
            model, _ = cv2.findHomography(first, second, cv2.USAC_MAGSAC, limit, None, _ITERATIONS, _CONFIDENCE)
        except cv2.error:  # all points in one place or on one line
            continue
        if not _usable(model):
            continue
        model = _fit_homography(np.linalg.inv(model) if inverted else model, a, b, noise * limit / 3)
        inliers = _inliers_both_ways(model, a, b, limit)
        if best is None or inliers.sum() > best[1].sum():
            best = model, inliers
    return best


def _fit_homography(start: np.ndarray, a: Points, b: Points, scale: np.ndarray) -> np.ndarray:
    """Fit a homography to matches by their errors in both images."""
    to_a, to_b = (_normalizing(points) for points in (a, b))
    normalized = to_b @ start @ np.linalg.inv(to_a)
    normalized /= np.linalg.norm(normalized)

    def model(change: np.ndarray) -> np.ndarray:
        return np.linalg.inv(to_b) @ (normalized + np.append(change, 0).reshape(3, 3)) @ to_a

    def residuals(change: np.ndarray) -> np.ndarray:
        there = model(change)
        return np.concatenate([project(there, a) - b, project(np.linalg.inv(there), b) - a], 1) / math.sqrt(2)

    found = model(fit_robustly(residuals, 8, scale)[0])
    return found / found[2, 2]


def _normalizing(points: Points) -> np.ndarray:
    """Return the similarity (3, 3) after which points have mean 0 and deviation 1."""
    middle, size = points.mean(0), max(float(points.std()), 1e-9)
    return np.array([[1 / size, 0, -middle[0] / size], [0, 1 / size, -middle[1] / size], [0, 0, 1]])


def _inliers_both_ways(model: np.ndarray, a: Points, b: Points, limit: float) -> np.ndarray:
    """Test which matches are at most ``limit`` pixels off in both images, (M,) bool."""
    return (_errors(model, a, b) <= limit) & (_errors(np.linalg.inv(model), b, a) <= limit)


def _errors(model: np.ndarray, a: Points, b: Points) -> np.ndarray:
    return np.linalg.norm(project(model, a) - b, axis=1)


def _usable(model: np.ndarray | None) -> bool:
    return model is not None and np.shape(model) == (3, 3) and np.linalg.matrix_rank(model) == 3 and model[2, 2] != 0


def _consistent_inliers(change: np.ndarray, inliers: np.ndarray) -> tuple[np.ndarray, complex]:
    """Select inliers whose change of frame, of (M,), agrees with that of most inliers: (M,) bool, and the common change."""
    # Median change of scale and mean change of angle.
    common = complex(np.median(change[inliers].real), np.angle(np.exp(1j * change[inliers].imag).sum()))
    return inliers & _alike(change, common), common


@cache
def _fitted() -> dict[str, Any]:
    return json.loads(FITTED.read_text(encoding="utf-8"))


def _positions_and_frames(keypoints: Keypoints) -> tuple[np.ndarray, np.ndarray]:
    """xy (N, 2), and log(scale) + i angle (N,): the difference of two is the zoom and the turn from one to the other."""
    scale, angle = keypoints.scale.cpu().double().numpy(), keypoints.angle.cpu().double().numpy()
    return keypoints.xy.cpu().double().numpy(), np.log(np.maximum(scale, 1e-9)) + 1j * angle


def _alike(change: np.ndarray, common: complex) -> np.ndarray:
    """Select changes of frame, of any shape, near the common one."""
    off = change - common
    turn = np.abs((off.imag + math.pi) % (2 * math.pi) - math.pi)
    return (np.abs(off.real) <= MAX_ZOOM) & (turn <= MAX_TURN)


def _agree(model: np.ndarray, kind: str, a: np.ndarray, b: np.ndarray, limit: float) -> np.ndarray:
    """Test all pairs of positions a (N, 2) and b (M, 2) against a geometry, by the rule for inliers: (N, M) bool."""
    if kind == "fundamental":
        return epipolar_errors(model, a[:, None], b[None]) <= limit
    there, back = project(model, a), project(np.linalg.inv(model), b)
    return (_distances(there, b) <= limit) & (_distances(a, back) <= limit)


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.linalg.norm(a[:, None] - b[None], axis=-1)


def _places(xy: np.ndarray, cell: float) -> int:
    return len(np.unique(np.round(xy / cell), axis=0))


def _evenly(total: int) -> np.ndarray:
    return np.linspace(0, total - 1, min(total, _KEYPOINTS)).round().astype(int)


def _log_choose(total: int, chosen: int) -> float:
    """Decimal logarithm of the number of ways to choose some of a total; 0 where there are not enough."""
    if chosen > total:
        return 0.0
    return (math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)) / math.log(10)

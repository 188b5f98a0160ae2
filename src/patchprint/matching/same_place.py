"""Whether two images show the same place, by the matches that agree with one geometry.

Some matches agree with some geometry in any two images. The evidence counts how many do, in position and in scale and angle,
and how likely that is for keypoints paired at random; a logistic function, fitted on pairs of images that do and do not show
the same place (``perf/verdict``), makes a probability of it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.ops.geometry import epipolar_errors, project
from patchprint.types import Features, Keypoints, Matches, Verdict

FITTED = Path(__file__).with_name("same_place.json")
SAMPLE = {"homography": 4, "fundamental": 7}  # matches that any such geometry can be made to agree with
MAX_TURN, MAX_ZOOM = math.radians(30), math.log(2)  # largest differences from what most inliers say
_KEYPOINTS = 400  # of each image, for the pairs at random


@dataclass(frozen=True)
class Evidence:
    """Evidence that two images show the same place.

    ``matches`` and ``agreeing`` count places: a keypoint with two angles counts once. ``agreeing`` are the inliers that were
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
    change = frames_b[rows_b] - frames_a[rows_a]
    common = _common(change[inliers])
    agreeing = inliers & _alike(change, common)
    some_a, some_b = _evenly(len(a)), _evenly(len(b))
    near = _agree(model, kind, xy_a[some_a], xy_b[some_b], limit)
    alike = _alike(frames_b[some_b] - frames_a[some_a][:, None], common)
    return Evidence(
        kind=kind,
        matches=min(_places(xy_a[rows_a], limit), _places(xy_b[rows_b], limit)),
        agreeing=min(_places(xy_a[rows_a[agreeing]], limit), _places(xy_b[rows_b[agreeing]], limit)),
        # As if one pair more had agreed: so few pairs cannot show that a chance is zero.
        by_position=(int(near.sum()) + 1) / (near.size + 1),
        by_frame=(int(alike.sum()) + 1) / (alike.size + 1),
    )


def consistent_inliers(a: Features, b: Features, found: Matches) -> np.ndarray:
    """Select inliers whose change of scale and angle agrees with that of most inliers: (M,) bool."""
    if found.inliers is None or not found.inliers.any():
        return np.zeros(len(found), dtype=bool)
    inliers = found.inliers.cpu().numpy()
    rows_a, rows_b = found.indices.cpu().numpy().T
    change = _positions_and_frames(b.keypoints)[1][rows_b] - _positions_and_frames(a.keypoints)[1][rows_a]
    return inliers & _alike(change, _common(change[inliers]))


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


@cache
def _fitted() -> dict[str, Any]:
    return json.loads(FITTED.read_text(encoding="utf-8"))


def _positions_and_frames(keypoints: Keypoints) -> tuple[np.ndarray, np.ndarray]:
    """xy (N, 2), and log(scale) + i angle (N,): the difference of two is the zoom and the turn from one to the other."""
    scale, angle = keypoints.scale.cpu().double().numpy(), keypoints.angle.cpu().double().numpy()
    return keypoints.xy.cpu().double().numpy(), np.log(np.maximum(scale, 1e-9)) + 1j * angle


def _common(change: np.ndarray) -> complex:
    """Median change of scale and mean change of angle of (M,) changes of frame."""
    return complex(np.median(change.real), np.angle(np.exp(1j * change.imag).sum()))


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

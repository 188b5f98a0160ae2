"""What the detector `learned` learns: the same peaks in two views of a place, exactly there, with the same direction."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.types import Keypoints
from patchprint.data.builders.crop_pairs import CropPair
from patchprint.detectors._learned_networks import AngleNetwork, read_circles
from patchprint.detectors.learned import SIGMA, find_peaks, level_of
from patchprint.ops.geometry import inside, jacobian, project

FOUND = 3.0  # pixels within which a keypoint is found again
SAME_SCALE = 0.55  # octaves; at a larger difference a keypoint counts half
MARGIN = 9  # pixels of the border of a view in which nothing is expected
_SOFT = 0.3  # scores that decide between kept and not: the temperature of the selection, and of the place
_REACH, _EXACT = 4, 0.7  # pixels around the true place that compete with it, and how exact it is
_LEAST = 15.0  # log-odds below the highest score at which a pixel is as good as none
_KEPT = 0.2  # probability above which a keypoint teaches place and angle
_ANGLE_OCTAVES = 0.8


@dataclass(frozen=True, eq=False)
class View:
    """One view of a pair: its pyramid, the scores of its levels, (h, w) each, and where its pixels lie in the other view."""

    pyramid: list[np.ndarray]
    scores: list[Tensor]
    to_other: np.ndarray
    other: np.ndarray  # bool (S, S): where the other view shows the image
    own: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.own.shape


@dataclass(frozen=True, eq=False)
class Peaks:
    """The keypoints of a view that the other one shows: where they lie there, at what scale, and whether they are kept."""

    keypoints: Keypoints
    ahead: np.ndarray
    scale_ahead: np.ndarray
    stretch: np.ndarray
    kept: Tensor


def view_losses(
    pair: CropPair, pyramids: list[list[np.ndarray]], scores: list[list[Tensor]], density: float, angle: AngleNetwork
) -> dict[str, Tensor] | None:
    """Losses of one pair; None where its views share too little.

    Args:
        scores: of the levels of both views.
        density: keypoints to keep for each pixel that both views show.
    """
    everywhere, back = np.ones_like(pair.shown), np.linalg.inv(pair.homography)
    first = View(pyramids[0], scores[0], pair.homography, pair.shown, everywhere)
    second = View(pyramids[1], scores[1], back, everywhere, pair.shown)
    count = density * min(_shared_area(first), _shared_area(second))
    peaks = [_shared_peaks(view, count) for view in (first, second)]
    if min(len(each.keypoints) for each in peaks) < max(4, count / 4):
        return None
    a, b = peaks
    distance = np.linalg.norm(a.ahead[:, None] - b.keypoints.xy.numpy()[None], axis=2)
    octaves = np.abs(np.log2(a.scale_ahead[:, None] / b.keypoints.scale.numpy()[None]))
    worth = np.where(octaves < SAME_SCALE, 1.0, 0.5) * (distance < FOUND) * (1 - 0.1 * np.minimum(distance, FOUND))
    table = torch.from_numpy(worth).float().to(a.kept.device)
    selection = _selection(a.kept, (table * b.kept.detach()).amax(1), count)
    selection = selection + _selection(b.kept, (table * a.kept.detach()[:, None]).amax(0), count)
    return {
        "selection": selection / 2,
        "place": (_place(second, a) + _place(first, b)) / 2,
        "angle": _angle(first, second, a, b, np.where(octaves < _ANGLE_OCTAVES, distance, np.inf), angle),
    }


def _visible(view: View, xy: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """Which points of a view lie inside both, away from borders and on the image, (N,) bool."""
    good = np.ones(len(xy), dtype=bool)
    for points, shown in ((xy, view.own), (ahead, view.other)):
        good &= inside(points - MARGIN, tuple(side - 2 * MARGIN for side in shown.shape))
        column, row = np.nan_to_num(points, posinf=0, neginf=0).round().astype(int).T
        good &= shown[row.clip(0, shown.shape[0] - 1), column.clip(0, shown.shape[1] - 1)]
    return good


def _shared_area(view: View) -> float:
    y, x = np.mgrid[4 : view.shape[0] : 8, 4 : view.shape[1] : 8]
    points = np.stack([x.ravel(), y.ravel()], 1).astype(float)
    return float(_visible(view, points, project(view.to_other, points)).mean() * view.own.size)


def _shared_peaks(view: View, count: float) -> Peaks:
    """Find the keypoints of a view that the other one shows; about ``count`` of them are kept."""
    found, index = find_peaks(view.shape, [score.detach().cpu().numpy() for score in view.scores])
    xy = found.xy.double().numpy()
    ahead = project(view.to_other, xy)
    chosen = np.flatnonzero(_visible(view, xy, ahead))
    stretch = jacobian(view.to_other, xy[chosen])
    keypoints = found[chosen]
    scale = keypoints.scale.numpy() * np.sqrt(np.abs(np.linalg.det(stretch)))
    flat = torch.cat([score.flatten() for score in view.scores])
    score = flat[torch.from_numpy(index[chosen]).to(flat.device)]
    return Peaks(
        keypoints, ahead[chosen], scale, stretch, torch.sigmoid((score - _threshold(score.detach(), count)) / _SOFT)
    )


def _threshold(score: Tensor, count: float) -> Tensor:
    """Find the score at which the probabilities of keeping a keypoint add up to ``count``."""
    if len(score) == 0:
        return torch.zeros((), device=score.device)
    low, high = score.min() - 3, score.max() + 3
    for _ in range(25):
        middle = (low + high) / 2
        too_many = torch.sigmoid((score - middle) / _SOFT).sum() > count
        low, high = torch.where(too_many, middle, low), torch.where(too_many, high, middle)
    return middle


def _selection(kept: Tensor, again: Tensor, count: float) -> Tensor:
    """Share of the kept keypoints that is found again, negative; since their number is fixed, each competes with the others
    for being kept, and what counts is how much more often than these it is found again."""
    slope = (kept * (1 - kept)).detach()
    usual = (slope * again).sum() / slope.sum().clamp(min=1e-6)
    return -(kept * (again - usual)).sum() / count


def _place(view: View, peaks: Peaks) -> Tensor:
    """Cross-entropy of the scores of a view around where the other one's keypoints must be, against the true place."""
    offset = np.arange(-_REACH, _REACH + 1)
    disc = np.stack([each.ravel() for each in np.meshgrid(offset, offset)])
    disc = disc[:, (disc**2).sum(0) <= _REACH**2 + 1]
    level = np.round(2 * np.log2(np.maximum(peaks.scale_ahead, 1e-6) / SIGMA)).astype(int)
    total = weight = torch.zeros((), device=peaks.kept.device)
    kept = peaks.kept.detach()
    for number, score in enumerate(view.scores):
        size = np.array(score.shape[::-1])
        place = (peaks.ahead + 0.5) * (size / view.shape[::-1]) - 0.5
        near = np.round(np.where(np.isfinite(place), place, -1)).astype(int)
        is_here = (level == number) & (near > _REACH).all(1) & (near < size - _REACH).all(1)
        rows = np.flatnonzero(is_here & (kept.cpu().numpy() > _KEPT))
        if len(rows) == 0:
            continue
        x, y = near[rows, :, None].transpose(1, 0, 2) + disc[:, None]
        away = (x - place[rows, :1]) ** 2 + (y - place[rows, 1:]) ** 2
        target = torch.from_numpy(-away / (2 * _EXACT**2)).float().to(score.device).softmax(1)
        around = score[torch.from_numpy(y), torch.from_numpy(x)] / _SOFT
        around = around.clamp(min=around.detach().amax(1, keepdim=True) - _LEAST)  # uniform areas have hardly any score
        entropy = -(target * F.log_softmax(around, 1)).sum(1)
        here = kept[torch.from_numpy(rows).to(kept.device)]
        total, weight = total + (entropy * here).sum(), weight + here.sum()
    return total / weight.clamp(min=1)


def _angle(first: View, second: View, a: Peaks, b: Peaks, distance: np.ndarray, angle: AngleNetwork) -> Tensor:
    """Cosine between the directions of keypoints that were found in both views, negative."""
    column = distance.argmin(1)
    mutual = distance.argmin(0)[column] == np.arange(len(column))
    rows = np.flatnonzero(mutual & (distance.min(1) < FOUND) & (a.kept.detach().cpu().numpy() > _KEPT))
    if len(rows) == 0:
        return 0.0 * cast(Tensor, angle.last.bias).sum()
    directions = []
    for view, peaks, chosen in ((first, a, rows), (second, b, column[rows])):
        found = peaks.keypoints[chosen]
        circles = read_circles(view.pyramid, level_of(found), found.xy.numpy())
        directions.append(angle(circles.to(a.kept.device)))
    turned = torch.einsum("nij,nj->ni", torch.from_numpy(a.stretch[rows]).to(directions[0]), directions[0])
    # Its length is still the certainty of the first direction, so that both are rewarded for being certain and right.
    turned = F.normalize(turned, dim=1) * directions[0].norm(dim=1, keepdim=True)
    return -(turned * directions[1]).sum(1).mean() - 0.1 * F.cosine_similarity(turned, directions[1]).mean()

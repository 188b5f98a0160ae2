"""What the detector `learned` learns: the same peaks in two views of a place, exactly there, told apart, with one direction."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.data.builders.crop_pairs import CropPairs, apply, linear_part
from patchprint.detectors._learned_networks import WITHIN, AngleNetwork, nearness
from patchprint.detectors.learned import PEAK, Peaks, find_peaks, scale_of

FOUND = 3.0  # pixels within which a keypoint is found again
MARGIN = 9  # pixels of the border of a view in which nothing is expected
SAME_SCALE = 0.55  # octaves; at a larger difference a keypoint counts half
_INEXACT = 0.15  # what a keypoint loses for each pixel that it is off
_SOFT = 0.3  # scores that decide between kept and not: the temperature of the selection, and of the center of a peak
_LEAST = 15.0  # log-odds below the highest score at which a pixel is as good as none
_KEPT = 0.2  # probability above which a keypoint teaches place and angle
_ANGLE_OCTAVES = 0.8
_OUTLIERS = 0.02  # probability that bounds what directions cost that do not agree at all
_MOST = 2.5  # times as many peaks are looked at as are kept
_APART = 8.0  # pixels beyond which a descriptor must differ
_CLEAR = 0.1  # difference of distances of descriptors that tells a keypoint apart

# Descriptors (N, D) of keypoints in the views of a batch: views (B, S, S), image (N,), xy (N, 2), scale (N,), angle (N,).
Describe = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Visible:
    """The peaks of views that the other view of their pair shows, strongest first, in rows of one length.

    Shape:
        those of `Peaks` with (V, K) instead of (N,); exists (V, K) bool; ahead (V, K, 2) where they lie in the other view,
        stretch (V, K, 2, 2) the derivative there; count (V,) how many are to be kept, kept (V, K) the probability of it.
    """

    peaks: Peaks
    exists: Tensor
    ahead: Tensor
    stretch: Tensor
    count: Tensor
    kept: Tensor

    def of(self, rows: slice) -> "Visible":
        peaks = Peaks(*(getattr(self.peaks, name)[rows] for name in ("image", "level", "xy", "score", "index")))
        return Visible(peaks, *(each[rows] for each in (self.exists, self.ahead, self.stretch, self.count, self.kept)))


@dataclass(frozen=True, eq=False)
class Joined:
    """Which peaks of the first and the second views show the same place.

    Shape:
        distance (B, K, K) pixels, the larger of both views'; infinite where there is no peak; octaves (B, K, K).
    """

    first: Visible
    second: Visible
    distance: Tensor
    octaves: Tensor


def join(pairs: CropPairs, scores: Sequence[Tensor], density: Tensor) -> Joined:
    """Find the peaks of both views and where they lie in the other one; ``density`` (B,) of them are kept for each pixel."""
    found, half = _visible_peaks(pairs, scores, density), len(pairs.homography)
    a, b = found.of(slice(None, half)), found.of(slice(half, None))
    # Distances by differences: those by products are off by a pixel in 32 bits.
    distance = (a.ahead[:, :, None] - b.peaks.xy[:, None]).norm(dim=3)
    distance = distance.masked_fill(~(a.exists[:, :, None] & b.exists[:, None]), torch.inf)
    scale = torch.log2(scale_of(a.peaks.level)) + 0.5 * a.stretch.det().abs().clamp(min=1e-9).log2()
    octaves = (scale[:, :, None] - torch.log2(scale_of(b.peaks.level))[:, None]).abs()
    return Joined(a, b, distance, octaves)


def pair_losses(
    pairs: CropPairs,
    pyramid: Sequence[Tensor],
    scores: Sequence[Tensor],
    density: Tensor,
    angle: AngleNetwork,
    describe: Describe | None = None,
) -> dict[str, Tensor]:
    """Losses of a batch of pairs.

    Args:
        pyramid, scores: levels of all views, (2 B, h, w) each.
        density: keypoints to keep for each pixel that both views show, (B,).
        describe: rewards keypoints that these descriptors tell apart; without it all that are found again.
    """
    joined = join(pairs, scores, density)
    a, b = joined.first, joined.second
    enough = torch.minimum(a.exists.sum(1), b.exists.sum(1)) >= (a.count / 4).clamp(min=4)
    closeness = torch.where(joined.octaves < SAME_SCALE, 1.0, 0.5) * (1 - _INEXACT * joined.distance.clamp(max=FOUND))
    worth = closeness * (joined.distance < FOUND)
    again = [(worth * b.kept.detach()[:, None]).amax(2), (worth * a.kept.detach()[:, :, None]).amax(1)]
    if describe is not None:
        with torch.no_grad():
            told = _told_apart(pairs, pyramid, joined, angle, describe)
        again = [each * (0.4 + 0.6 * known) for each, known in zip(again, told, strict=True)]
    weight = enough.float() / enough.sum().clamp(min=1)
    views = list(zip((a, b), again, strict=True))
    return {
        "selection": torch.stack([(_selection(view, each) * weight).sum() for view, each in views]).mean(),
        "place": _place(scores, joined, enough),
        "angle": _angle(pyramid, joined, enough, angle),
        "again": -torch.stack([(view.kept.detach() * each).sum() / view.count.sum() for view, each in views]).mean(),
    }


def measure(
    pairs: CropPairs, scores: Sequence[Tensor], pyramid: Sequence[Tensor], density: Tensor, angle: AngleNetwork
) -> dict[str, float]:
    """Share of the strongest keypoints not found again, mean distance of the others, share of angles off by 20 degrees."""
    joined = join(pairs, scores, density)
    order = [
        torch.arange(view.exists.shape[1], device=view.count.device) < view.count[:, None]
        for view in (joined.first, joined.second)
    ]
    chosen = [view.exists & first for view, first in zip((joined.first, joined.second), order, strict=True)]
    distance = joined.distance.masked_fill(~(chosen[0][:, :, None] & chosen[1][:, None]), torch.inf)
    pair, row, column = _mutual(distance)
    near = distance[pair, row, column]
    fewest = torch.minimum(chosen[0].sum(1), chosen[1].sum(1)).sum().clamp(min=1)
    turned = _directions(pyramid, joined, pair, row, column, angle)
    off = F.cosine_similarity(*turned) < math.cos(math.radians(20))
    return {
        "unrepeated": float(1 - len(near) / fewest),
        "distance": float(near.mean()) if len(near) else FOUND,
        "turned": float(off.float().mean()) if len(near) else 1.0,
    }


def _visible_peaks(pairs: CropPairs, scores: Sequence[Tensor], density: Tensor) -> Visible:
    views, side = len(pairs.views), pairs.views.shape[1]
    peaks = find_peaks(scores)
    to_other = pairs.to_other()
    # The score once more, with its gradient.
    score = torch.cat([each.flatten() for each in scores])[peaks.index]
    seen, ahead = _is_visible(pairs, to_other, peaks.image, peaks.xy)
    grid = torch.arange(4.0, side, 8, device=score.device)
    places = torch.stack([grid.repeat(len(grid)), grid.repeat_interleave(len(grid))], 1).repeat(views, 1)
    image = torch.arange(views, device=score.device).repeat_interleave(len(grid) ** 2)
    shared = _is_visible(pairs, to_other, image, places)[0].view(views, -1).float().mean(1) * side**2
    count = (density * torch.minimum(*shared.chunk(2))).clamp(min=1).repeat(2)
    # Rows of one length: by view, strongest first.
    order = peaks.score.masked_fill(~seen, -torch.inf).argsort(descending=True)
    order = order[peaks.image[order].argsort(stable=True)]
    start = torch.searchsorted(peaks.image[order].contiguous(), torch.arange(views, device=score.device))
    rank = torch.arange(len(order), device=score.device) - start[peaks.image[order]]
    length = max(8, math.ceil(_MOST * float(density.max()) * side**2))
    within = seen[order] & (rank < length)
    row = order[within]
    slot = peaks.image[row] * length + rank[within]

    def spread(values: Tensor, empty: float = 0) -> Tensor:
        made = values.new_full((views * length, *values.shape[1:]), empty)
        return made.index_copy(0, slot, values[row]).view(views, length, *values.shape[1:])

    exists = spread(seen)
    wide = spread(score)
    placed = Peaks(spread(peaks.image), spread(peaks.level), spread(peaks.xy), wide, spread(peaks.index))
    stretch = linear_part(to_other, placed.xy)
    kept = torch.sigmoid((wide - _threshold(wide.detach(), exists, count)[:, None]) / _SOFT) * exists
    return Visible(placed, exists, spread(ahead), stretch, count, kept)


def _is_visible(pairs: CropPairs, to_other: Tensor, image: Tensor, xy: Tensor) -> tuple[Tensor, Tensor]:
    """Which points of views lie inside both and on both images, where their pair is known, and where in the other view."""
    views, side = len(pairs.views), pairs.views.shape[1]
    half = views // 2
    other = (image + half) % views

    def move(maps: Tensor, points: Tensor) -> Tensor:
        return apply(maps, points[:, None])[:, 0]

    ahead = move(to_other[image], xy)
    good = torch.ones_like(image, dtype=torch.bool)
    for points, which in ((xy, image), (ahead, other)):
        good &= ((points >= MARGIN - 0.5) & (points <= side - MARGIN - 0.5)).all(1)
        there = move(pairs.bounds[which], points)
        good &= ((there >= MARGIN) & (there <= pairs.sizes[which] - 1 - MARGIN)).all(1)
    disc = pairs.disc[image % half]
    in_first = torch.where((image < half)[:, None], xy, ahead)
    return good & ((in_first - disc[:, :2]).norm(dim=1) < disc[:, 2]), ahead


def _threshold(score: Tensor, exists: Tensor, count: Tensor) -> Tensor:
    """Find the score at which the probabilities of keeping a keypoint add up to ``count``, (V,)."""
    low = score.masked_fill(~exists, torch.inf).amin(1).clamp(max=1e3) - 3
    high = score.masked_fill(~exists, -torch.inf).amax(1).clamp(min=-1e3) + 3
    for _ in range(25):
        middle = (low + high) / 2
        too_many = (torch.sigmoid((score - middle[:, None]) / _SOFT) * exists).sum(1) > count
        low, high = torch.where(too_many, middle, low), torch.where(too_many, high, middle)
    return middle


def _selection(view: Visible, again: Tensor) -> Tensor:
    """Share of the kept keypoints that is found again, negative, (B,); since their number is fixed, each competes with the
    others for being kept, and what counts is how much more often than these it is found again."""
    slope = (view.kept * (1 - view.kept)).detach()
    usual = (slope * again).sum(1, keepdim=True) / slope.sum(1, keepdim=True).clamp(min=1e-6)
    return -(view.kept * (again - usual)).sum(1) / view.count


def _place(scores: Sequence[Tensor], joined: Joined, enough: Tensor) -> Tensor:
    """Mean distance in pixels of keypoints that were found in both views, from the center of mass of their peaks."""
    usable = (
        (joined.octaves < _ANGLE_OCTAVES) & (joined.first.kept.detach() > _KEPT)[:, :, None] & enough[:, None, None]
    )
    pair, row, column = _mutual(joined.distance.masked_fill(~usable, torch.inf))
    flat, widths = torch.cat([each.flatten() for each in scores]), [each.shape[2] for each in scores]
    first = _center_of_mass(flat, widths, joined.first.peaks, pair, row)
    second = _center_of_mass(flat, widths, joined.second.peaks, pair, column)
    ahead = joined.first.ahead[pair, row] + (joined.first.stretch[pair, row] @ first[:, :, None])[:, :, 0]
    off = (ahead - joined.second.peaks.xy[pair, column] - second).square().sum(1).add(0.01).sqrt()
    return off.sum() / max(1, len(off))


def _center_of_mass(flat: Tensor, widths: Sequence[int], peaks: Peaks, pair: Tensor, which: Tensor) -> Tensor:
    """Where the weight of the scores around peaks lies, from their position without its gradient, (N, 2) pixels of views."""
    level, index = peaks.level[pair, which], peaks.index[pair, which]
    width = torch.tensor(widths).to(level.device)[level]
    around = torch.arange(-PEAK, PEAK + 1, device=level.device)
    x, y = around.repeat(len(around)), around.repeat_interleave(len(around))
    values = flat[index[:, None] + y * width[:, None] + x] / _SOFT
    values = values.clamp(min=values.detach().amax(1, keepdim=True) - _LEAST) if len(values) else values
    weight = values.softmax(1)
    moved = torch.stack([(weight * x).sum(1), (weight * y).sum(1)], 1)
    return (moved - moved.detach()) * (widths[0] / width)[:, None]


def _mutual(distance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Find pair, row and column of mutual nearest neighbors that are near enough."""
    nearest, column = distance.min(2)
    back = distance.min(1).indices.gather(1, column)
    row = torch.arange(distance.shape[1], device=distance.device)
    pair, row = ((back == row) & (nearest < FOUND)).nonzero(as_tuple=True)
    return pair, row, column[pair, row]


def _directions(
    pyramid: Sequence[Tensor], joined: Joined, pair: Tensor, row: Tensor, column: Tensor, angle: AngleNetwork
) -> tuple[Tensor, Tensor]:
    """Directions of joined peaks in the second view: those of the first one carried there, and its own, (N, 2) each."""
    found = []
    for peaks, which in ((joined.first.peaks, row), (joined.second.peaks, column)):
        image, level, xy = (each[pair, which] for each in (peaks.image, peaks.level, peaks.xy))
        found.append(angle(pyramid, image, level, xy))
    turned = torch.einsum("nij,nj->ni", joined.first.stretch[pair, row], found[0])
    return turned, found[1]


def _angle(pyramid: Sequence[Tensor], joined: Joined, enough: Tensor, angle: AngleNetwork) -> Tensor:
    """Negative logarithm of the probability that directions of both views agree, drawn by their chances, where both were found.

    A cosine of mean directions rewards the middle of two likely ones, and 40 degrees more than 60; this one, being right.
    """
    usable = (
        (joined.octaves < _ANGLE_OCTAVES) & (joined.first.kept.detach() > _KEPT)[:, :, None] & enough[:, None, None]
    )
    pair, row, column = _mutual(joined.distance.masked_fill(~usable, torch.inf))
    chances = []
    for peaks, which in ((joined.first.peaks, row), (joined.second.peaks, column)):
        image, level, xy = (each[pair, which] for each in (peaks.image, peaks.level, peaks.xy))
        chances.append(angle.chances(pyramid, image, level, xy))
    turned = F.normalize(torch.einsum("nij,dj->ndi", joined.first.stretch[pair, row], angle.directions), dim=2)
    agree = torch.einsum("nd,nde,ne->n", chances[0], nearness(turned @ angle.directions.T, WITHIN), chances[1])
    return -(agree + _OUTLIERS).log().sum() / max(1, len(pair))


def _told_apart(
    pairs: CropPairs, pyramid: Sequence[Tensor], joined: Joined, angle: AngleNetwork, describe: Describe
) -> list[Tensor]:
    """How clearly descriptors tell each peak from those of other places, (B, K) in [0, 1] for both views."""
    described = []
    for view in (joined.first, joined.second):
        pair, row = (view.kept > 0.05).nonzero(as_tuple=True)
        image, level, xy = (each[pair, row] for each in (view.peaks.image, view.peaks.level, view.peaks.xy))
        x, y = angle(pyramid, image, level, xy).unbind(1)
        found = describe(pairs.views, image, xy, scale_of(level), torch.atan2(y, x))
        made = found.new_zeros(*view.kept.shape, found.shape[1])
        made[pair, row] = found
        described.append(made)
    similar = described[0] @ described[1].mT
    known = (joined.first.kept > 0.05)[:, :, None] & (joined.second.kept > 0.05)[:, None]
    distance = (2 - 2 * similar).clamp(min=1e-6).sqrt()
    near = joined.distance.masked_fill(~known, torch.inf)
    told = []
    for axis in (2, 1):
        place = near.min(axis, keepdim=True).indices
        positive = distance.gather(axis, place).squeeze(axis)
        negative = distance.masked_fill(~known | (near < _APART), 2.0).amin(axis)
        told.append(torch.sigmoid((negative - positive) / _CLEAR))
    return told

"""Corners of several scales with a learned score and a learned angle: found again in other light and at any angle."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common.devices import single_thread
from patchprint.common.types import Keypoints
from patchprint.detectors import FAINTEST, Detector, candidates, keep_inside
from patchprint.detectors._learned_networks import (
    FLAT,
    WEIGHTS,
    build_pyramid,
    load_networks,
)
from patchprint.ops.filters import highest_near

SIGMA = 2.0  # scale given to a corner of the finest level
PEAK = 2  # pixels of a level around a keypoint without a higher score
APART = 3  # pixels of the image between keypoints of any level
BORDER = 6  # pixels of a level
MOST = 4096  # where no number is asked for
_NOTHING = -1e6  # score of a pixel without a keypoint


def find_learned(
    image: np.ndarray,
    max_keypoints: int | None = None,
    mask: np.ndarray | None = None,
    weights: str | Path = WEIGHTS,
) -> Keypoints:
    """Corners, strongest first, each with one scale and one angle."""
    with single_thread():
        return find_learned_on_gpu(image, max_keypoints, mask, torch.device("cpu"), weights)


@torch.no_grad()
def find_learned_on_gpu(
    image: np.ndarray,
    max_keypoints: int | None,
    mask: np.ndarray | None,
    device: torch.device,
    weights: str | Path = WEIGHTS,
) -> Keypoints:
    """The same on ``device``."""
    if min(image.shape) <= 2 * BORDER:
        return Keypoints.empty()
    networks = load_networks(weights, device)
    pyramid = build_pyramid(torch.from_numpy(np.ascontiguousarray(image)).to(device)[None])
    peaks = find_peaks(networks.score.of_pyramid(pyramid))
    found = Keypoints(peaks.xy, scale_of(peaks.level), 0.0, peaks.score)
    found = candidates(keep_inside(found, mask), max_keypoints or MOST, image.shape[::-1])  # no angles of others
    if len(found) == 0:
        return found
    level = level_of(found.scale)
    x, y = networks.angle(pyramid, torch.zeros_like(level), level, found.xy).unbind(1)
    return dataclasses.replace(found, angle=torch.atan2(y, x))


@dataclass(frozen=True, eq=False)
class Peaks:
    """The highest scores of a batch of images, and where they stand in the scores of all levels, one after the other.

    Shape:
        image (N,) int64, level (N,) int64, xy (N, 2) in pixels of the images, score (N,), index (N,) int64.
    """

    image: Tensor
    level: Tensor
    xy: Tensor
    score: Tensor
    index: Tensor

    def __len__(self) -> int:
        return len(self.level)

    def __getitem__(self, chosen: Tensor) -> "Peaks":
        return Peaks(*(each[chosen] for each in (self.image, self.level, self.xy, self.score, self.index)))


def find_peaks(scores: Sequence[Tensor]) -> Peaks:
    """Find the peaks of the scores of all levels, (B, h, w) each, that no higher peak is near to.

    A place that is a corner in several levels is given the scale of the level where its score is highest.
    """
    count, height, width = scores[0].shape
    parts, before = [], 0
    for number, score in enumerate(scores):
        parts.append(_peaks_of_level((height, width), number, score.detach(), before))
        before += score.numel()
    peaks = Peaks(*map(torch.cat, zip(*parts, strict=True)))
    column, row = (peaks.xy[:, axis].round().long().clamp(0, (width, height)[axis] - 1) for axis in (0, 1))
    place = (peaks.image * height + row) * width + column
    plane = scores[0].detach().new_full((count * height * width,), _NOTHING)
    plane = plane.scatter_reduce_(0, place, peaks.score, "amax").view(count, height, width)
    return peaks[peaks.score == highest_near(plane, APART).flatten()[place]]


def scale_of(level: Tensor) -> Tensor:
    """Return the scale of the keypoints of a level of the pyramid, (N,)."""
    return SIGMA * torch.exp2(level / 2)


def level_of(scale: Tensor) -> Tensor:
    """Return the level of the pyramid that keypoints of a scale are found in, (N,) int64."""
    return (2 * torch.log2(scale / SIGMA)).round().long()


def _peaks_of_level(shape: tuple[int, int], number: int, score: Tensor, before: int) -> tuple[Tensor, ...]:
    """Find the peaks of one level, with the vertex of a parabola through each and its neighbors as position."""
    height, width = score.shape[1:]
    core = (slice(None), slice(BORDER, -BORDER), slice(BORDER, -BORDER))
    inner = score[core]
    image, row, column = ((inner == highest_near(score, PEAK)[core]) & (inner > FLAT)).nonzero(as_tuple=True)
    row, column = row + BORDER, column + BORDER
    index, values = (image * height + row) * width + column, score.flatten()

    def at(down: int, right: int) -> Tensor:
        return values[index + (down * width + right)]

    dx, dy, here = 0.5 * (at(0, 1) - at(0, -1)), 0.5 * (at(1, 0) - at(-1, 0)), at(0, 0)
    xx, yy = at(0, 1) + at(0, -1) - 2 * here, at(1, 0) + at(-1, 0) - 2 * here
    xy = 0.25 * (at(1, 1) + at(-1, -1) - at(1, -1) - at(-1, 1))
    determinant = xx * yy - xy * xy
    is_round = determinant > FAINTEST
    offset = torch.stack([xy * dy - yy * dx, xy * dx - xx * dy], 1) / determinant.where(is_round, 1)[:, None]
    offset = offset.where(is_round[:, None], 0).clamp(-0.7, 0.7)
    # Pixel u of a level has its center at (u + 0.5) * stretch - 0.5 of the image.
    stretch = score.new_tensor([shape[1] / width, shape[0] / height])
    place = (torch.stack([column, row], 1) + offset + 0.5) * stretch - 0.5
    return image, torch.full_like(image, number), place, here, before + index


detector = Detector(
    "corners of several scales with a learned score and angle",
    "other",
    find_learned,
    find_on_gpu=find_learned_on_gpu,
)

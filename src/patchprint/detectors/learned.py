"""Corners of several scales with a learned score and a learned angle: found again in other light and at any angle."""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common.devices import Recording, parallel_map
from patchprint.common.lru import Lru
from patchprint.common.types import Keypoints
from patchprint.detectors import FAINTEST, Detector, candidates, keep_inside
from patchprint.detectors._learned_networks import (
    FLAT,
    WEIGHTS,
    KeypointNetworks,
    build_pyramid,
    load_networks,
    without_gradients,
)
from patchprint.ops.filters import highest_near

SIGMA = 2.0  # scale given to a corner of the finest level
PEAK = 2  # pixels of a level around a keypoint without a higher score
APART = 3  # pixels of the image between keypoints of any level
BORDER = 6  # pixels of a level
MOST = 4096  # where no number is asked for
_KEPT_PIXELS = 1 << 22  # of the images whose recordings are kept, with some 500 bytes of GPU memory for each
_NOTHING = -1e6  # score of a pixel without a keypoint


def find_learned(
    image: np.ndarray,
    max_keypoints: int | None = None,
    mask: np.ndarray | None = None,
    weights: str | Path = WEIGHTS,
) -> Keypoints:
    """Corners, strongest first, each with one scale and one angle."""
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
    networks, pixels = load_networks(weights, device), torch.from_numpy(np.ascontiguousarray(image))
    if device.type != "cuda":
        return _find(_Look.at(pixels.to(device), networks), networks, max_keypoints, mask)
    with _turn:
        looks = _looks.get((image.shape, str(weights), device), lambda: _Looks(networks, pixels.numel()))
        return _find(looks.at(pixels.to(device)), networks, max_keypoints, mask)


def _find(look: "_Look", networks: KeypointNetworks, max_keypoints: int | None, mask: np.ndarray | None) -> Keypoints:
    peaks = find_peaks(look.scores, look.marks)
    found = Keypoints(peaks.xy, scale_of(peaks.level), 0.0, peaks.score)
    height, width = look.pyramid[0].shape[1:]
    found = candidates(keep_inside(found, mask), max_keypoints or MOST, (width, height))  # no angles of others
    if len(found) == 0:
        return found
    level = level_of(found.scale)
    x, y = networks.angle(look.pyramid, torch.zeros_like(level), level, found.xy).unbind(1)
    return dataclasses.replace(found, angle=torch.atan2(y, x))


@dataclass(frozen=True, eq=False)
class _Look:
    """The levels of an image, their scores, and where these have peaks, all (1, h, w)."""

    pyramid: list[Tensor]
    scores: list[Tensor]
    marks: list[Tensor]

    @staticmethod
    def at(image: Tensor, networks: KeypointNetworks) -> "_Look":
        pyramid = build_pyramid(image[None])
        scores = networks.score.of_pyramid(pyramid)
        return _Look(pyramid, scores, mark_peaks(scores))


class _Looks:
    """Looks at images of one size on a GPU, from the second on as a CUDA graph: most operations are shorter than a launch."""

    def __init__(self, networks: KeypointNetworks, pixels: int) -> None:
        self.pixels = pixels
        self._networks = networks
        self._shapes: list[torch.Size] = []
        self._run: Callable[[Tensor], Tensor] | None = None

    def at(self, image: Tensor) -> _Look:
        if not self._shapes:
            look = _Look.at(image, self._networks)
            self._shapes = [level.shape for level in look.pyramid]
            return look
        if self._run is None:
            self._run = Recording(self._flat, image.clone())
        sizes = [shape.numel() for shape in self._shapes]
        parts = [
            [level.view(shape) for level, shape in zip(part.split(sizes), self._shapes, strict=True)]
            for part in self._run(image)
        ]
        return _Look(*parts)

    def _flat(self, image: Tensor) -> Tensor:
        """Look at an image; all levels one after the other, (3, pixels of all levels)."""
        parts = vars(_Look.at(image, self._networks)).values()
        return torch.stack([torch.cat([level.flatten().float() for level in part]) for part in parts])


_turn = threading.Lock()  # a recording has one input and one output buffer
_looks: Lru[_Looks] = Lru(_KEPT_PIXELS, cost=lambda looks: looks.pixels)


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


def mark_peaks(scores: Sequence[Tensor]) -> list[Tensor]:
    """Mark the pixels of each level, (B, h, w), that no higher score of the level is near to."""

    def mark(score: Tensor) -> Tensor:
        score, core = score.detach(), (slice(None), slice(BORDER, -BORDER), slice(BORDER, -BORDER))
        marks, inner = torch.zeros_like(score, dtype=torch.bool), score[core]
        marks[core] = (inner == highest_near(score, PEAK)[core]) & (inner > FLAT)
        return marks

    if scores[0].device.type == "cpu":
        return parallel_map(lambda: without_gradients(mark), scores)
    return [mark(score) for score in scores]


def find_peaks(scores: Sequence[Tensor], marks: Sequence[Tensor] | None = None) -> Peaks:
    """Find the peaks of the scores of all levels, (B, h, w) each, that no higher peak is near to.

    A place that is a corner in several levels is given the scale of the level where its score is highest. The position is
    the vertex of a parabola through the score and its neighbors.
    """
    count, height, width = scores[0].shape
    values = torch.cat([score.detach().flatten() for score in scores])
    index = torch.cat([each.flatten() for each in (mark_peaks(scores) if marks is None else marks)]).nonzero()[:, 0]
    starts = itertools.accumulate((score.numel() for score in scores), initial=0)
    table = torch.tensor([[start, *score.shape[1:]] for start, score in zip(starts, scores, strict=False)]).to(
        index.device
    )
    level = torch.searchsorted(table[:, 0].contiguous(), index, right=True) - 1
    start, rows, columns = table[level].unbind(1)
    place = index - start
    image, row, column = place // (rows * columns), place // columns % rows, place % columns
    # Pixel u of a level has its center at (u + 0.5) * stretch - 0.5 of the image.
    stretch = torch.stack([width / columns, height / rows], 1)
    xy = (torch.stack([column, row], 1) + _vertex(values, index, columns) + 0.5) * stretch - 0.5
    peaks = Peaks(image, level, xy, values[index], index)
    column, row = (xy[:, axis].round().long().clamp(0, (width, height)[axis] - 1) for axis in (0, 1))
    place = (image * height + row) * width + column
    plane = values.new_full((count * height * width,), _NOTHING)
    plane = plane.scatter_reduce_(0, place, peaks.score, "amax").view(count, height, width)
    return peaks[peaks.score == highest_near(plane, APART).flatten()[place]]


def _vertex(values: Tensor, index: Tensor, width: Tensor) -> Tensor:
    """Fit a parabola to the pixels around those of an index, in rows of a width, and return its vertex: (N, 2) x and y."""

    def at(down: int, right: int) -> Tensor:
        return values[index + (down * width + right)]

    left, here, right, above, below = at(0, -1), at(0, 0), at(0, 1), at(-1, 0), at(1, 0)
    dx, dy, xx, yy = 0.5 * (right - left), 0.5 * (below - above), right + left - 2 * here, below + above - 2 * here
    xy = 0.25 * (at(1, 1) + at(-1, -1) - at(1, -1) - at(-1, 1))
    determinant = xx * yy - xy * xy
    is_round = determinant > FAINTEST
    offset = torch.stack([xy * dy - yy * dx, xy * dx - xx * dy], 1) / determinant.where(is_round, 1)[:, None]
    return offset.where(is_round[:, None], 0).clamp(-0.7, 0.7)


def scale_of(level: Tensor) -> Tensor:
    """Return the scale of the keypoints of a level of the pyramid, (N,)."""
    return SIGMA * torch.exp2(level / 2)


def level_of(scale: Tensor) -> Tensor:
    """Return the level of the pyramid that keypoints of a scale are found in, (N,) int64."""
    return (2 * torch.log2(scale / SIGMA)).round().long()


detector = Detector(
    "corners of several scales with a learned score and angle",
    "other",
    find_learned,
    find_on_gpu=find_learned_on_gpu,
)

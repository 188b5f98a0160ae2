"""Extrema of differences of Gaussians by operations on whole images: the keypoints of OpenCV's SIFT, for GPUs.

`find` works on any device. On NVIDIA GPUs `_scale_space_kernels` does the same in a few launches.
"""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.devices import supports_triton
from patchprint.common.types import Keypoints
from patchprint.interop.opencv import LAYERS_PER_OCTAVE, SIFT_SIGMA

BORDER = 5  # pixels of an octave along its edges without keypoints
STEPS = 5  # of the refinement; what has not converged then is dropped
BINS = 36  # of the histogram of gradient directions
PEAK = 0.8  # directions whose peak reaches this part of the highest count
REACH = 4.5  # radius of the histogram in units of the scale; its window has a sigma of 1.5 scales
MOST_RADIUS = round(REACH * SIFT_SIGMA * 2 ** ((LAYERS_PER_OCTAVE + 0.5) / LAYERS_PER_OCTAVE))
IMAGE_SIGMA = 1.0  # blur of an image that was enlarged twice, which has 0.5 before
_CHUNK = 1024  # points whose surroundings are read at a time


def find(image: Tensor, contrast: float, edge: float, device: torch.device) -> Keypoints:
    """Find the keypoints of an image, uint8 (H, W), on ``device``, strongest first; one with two directions counts twice."""
    if supports_triton(device):
        from patchprint.detectors import _scale_space_kernels

        return _scale_space_kernels.find(image, contrast, edge, device)
    level = blur(_enlarged(image.to(device).float()), math.sqrt(SIFT_SIGMA**2 - IMAGE_SIGMA**2))
    parts = []
    for octave in range(num_octaves(*image.shape)):
        gaussians = [level]
        for sigma in sigmas():
            gaussians.append(blur(gaussians[-1], sigma))
        parts.append(_of_octave(torch.stack(gaussians), octave, contrast, edge))
        level = _halved(gaussians[LAYERS_PER_OCTAVE])
    found = Keypoints.concatenate(parts).to(device)
    assert found.score is not None
    return found[found.score.argsort(descending=True, stable=True)]


def num_octaves(height: int, width: int) -> int:
    """Return how many octaves have pixels inside of the border; the first is of the enlarged image."""
    side = 2 * min(height, width)
    return max(0, math.floor(math.log2(side / (2 * BORDER + 1))) + 1) if side > 2 * BORDER else 0


def sigmas() -> list[float]:
    """Return the blur from each level of an octave to the next."""
    step = 2 ** (1 / LAYERS_PER_OCTAVE)
    return [SIFT_SIGMA * step**number * math.sqrt(step**2 - 1) for number in range(LAYERS_PER_OCTAVE + 2)]


@functools.cache
def gaussian(sigma: float) -> tuple[float, ...]:
    """Return the weights of a Gaussian filter as long as OpenCV's for floats."""
    radius = (round(8 * sigma + 1) | 1) // 2
    weights = [math.exp(-0.5 * (place / sigma) ** 2) for place in range(-radius, radius + 1)]
    return tuple(weight / sum(weights) for weight in weights)


def blur(level: Tensor, sigma: float) -> Tensor:
    """Blur (H, W) with a Gaussian; the image is mirrored at its outermost pixels."""
    weights = torch.tensor(gaussian(sigma), device=level.device)
    radius, values = len(weights) // 2, level
    for _ in range(2):
        last = len(values) - 1
        place = torch.arange(-radius, len(values) + radius, device=level.device) % max(2 * last, 1)
        rows = values[torch.minimum(place, 2 * last - place)]
        values = F.conv2d(rows[None, None], weights[None, None, :, None])[0, 0].T
    return values.contiguous()


def _enlarged(image: Tensor) -> Tensor:
    """Enlarge (H, W) twice, without a shift of the first pixel."""
    for _ in range(2):
        following = torch.cat([image[1:], image[-1:]])
        image = torch.stack([image, (image + following) / 2], 1).flatten(0, 1).T
    return image


def _halved(level: Tensor) -> Tensor:
    height, width = level.shape
    return level[: height // 2 * 2 : 2, : width // 2 * 2 : 2].contiguous()


def _of_octave(gaussians: Tensor, octave: int, contrast: float, edge: float) -> Keypoints:
    """Find the keypoints in the levels of an octave, (L, H, W)."""
    differences = gaussians[1:] - gaussians[:-1]
    place = _extrema(differences, 255 * 0.5 * contrast / LAYERS_PER_OCTAVE)
    place, offset, score = _refined(differences, place, contrast, edge)
    scale = SIFT_SIGMA * torch.exp2((place[:, 0] + offset[:, 0]) / LAYERS_PER_OCTAVE)
    histograms = [_directions(gaussians, *part) for part in zip(place.split(_CHUNK), scale.split(_CHUNK), strict=True)]
    row, angle = _peaks(torch.cat(histograms))
    unit = 2.0 ** (octave - 1)
    xy = (place[:, 1:] + offset[:, 1:]).flip(1) * unit
    return Keypoints(xy[row], scale[row] * unit, angle, score[row])


def _extrema(differences: Tensor, least: float) -> Tensor:
    """Find what is larger, or smaller, than all neighbors in position and scale: (M, 3) int64 level, row, column."""
    found = torch.zeros_like(differences, dtype=torch.bool)
    inside = (slice(1, -1), slice(BORDER, -BORDER), slice(BORDER, -BORDER))
    for values in (differences, -differences):
        highest = F.max_pool3d(values[None, None], 3, 1, 1)[0, 0]
        found[inside] |= ((values == highest) & (values > least))[inside]
    return found.nonzero()


def _refined(differences: Tensor, place: Tensor, contrast: float, edge: float) -> tuple[Tensor, Tensor, Tensor]:
    """Move extrema to the vertex of a parabola through their neighbors, and drop those without contrast or on edges.

    Shape:
        place (M, 3) -> place (N, 3) int64, offset (N, 3) from it, below 0.5, and score (N,).
    """
    levels, height, width = differences.shape
    size = torch.tensor([levels, height, width], device=place.device)
    border = torch.tensor([1, BORDER, BORDER], device=place.device)
    values = differences.flatten() / 255
    alive = torch.ones(len(place), dtype=torch.bool, device=place.device)
    for _ in range(STEPS):
        gradient, second, offset = _parabola(values, place, width, height * width)
        settled = (offset.abs() < 0.5).all(1)
        place = torch.where(
            (settled | ~alive)[:, None], place, place + offset.nan_to_num().clamp(-1e6, 1e6).round().long()
        )
        alive &= ((place >= border) & (place < size - border)).all(1)
        place = torch.where(alive[:, None], place, border)
    height_there = values[_index(place, width, height * width)] + 0.5 * (gradient * offset).sum(1)
    _, yy, xx, _, _, xy = second
    trace, determinant = xx + yy, xx * yy - xy * xy
    is_blob = (determinant > 0) & (trace**2 * edge < (edge + 1) ** 2 * determinant)
    good = alive & settled & is_blob & (height_there.abs() * LAYERS_PER_OCTAVE >= contrast)
    place, offset, score = place[good], offset[good], height_there[good].abs()
    # Extrema next to each other may have moved to the same place.
    index, order = _index(place, width, height * width).sort(stable=True)
    first = order[torch.cat([index[:1] == index[:1], index[1:] != index[:-1]])]
    return place[first], offset[first], score[first]


def _index(place: Tensor, width: int, area: int) -> Tensor:
    return place[:, 0] * area + place[:, 1] * width + place[:, 2]


def _parabola(values: Tensor, place: Tensor, width: int, area: int) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
    """Fit a parabola at places (M, 3): gradient (M, 3), second derivatives ss, yy, xx, sy, sx, yx, and its vertex (M, 3)."""
    index = _index(place, width, area)

    def at(level: int, row: int, column: int) -> Tensor:
        return values[index + (level * area + row * width + column)]

    twice = 2 * at(0, 0, 0)
    s, y, x = (0.5 * (at(*step) - at(*(-each for each in step))) for step in ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    ss, yy, xx = (at(*step) + at(*(-each for each in step)) - twice for step in ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    sy = 0.25 * (at(1, 1, 0) - at(1, -1, 0) - at(-1, 1, 0) + at(-1, -1, 0))
    sx = 0.25 * (at(1, 0, 1) - at(1, 0, -1) - at(-1, 0, 1) + at(-1, 0, -1))
    yx = 0.25 * (at(0, 1, 1) - at(0, 1, -1) - at(0, -1, 1) + at(0, -1, -1))
    # By Cramer's rule.
    a, b, c = yy * xx - yx * yx, sx * yx - sy * xx, sy * yx - sx * yy
    d, e, f = ss * xx - sx * sx, sx * sy - ss * yx, ss * yy - sy * sy
    determinant = ss * a + sy * b + sx * c
    vertex = torch.stack([a * s + b * y + c * x, b * s + d * y + e * x, c * s + e * y + f * x], 1)
    return torch.stack([s, y, x], 1), (ss, yy, xx, sy, sx, yx), -vertex / determinant[:, None]


def _directions(gaussians: Tensor, place: Tensor, scale: Tensor) -> Tensor:
    """Count directions of gradients around places (N, 3), weighted by their length: (N, BINS), smoothed."""
    _, height, width = gaussians.shape
    around = torch.arange(-MOST_RADIUS, MOST_RADIUS + 1, device=place.device)
    down, right = (each.flatten() for each in torch.meshgrid(around, around, indexing="ij"))
    row, column = place[:, 1:2] + down, place[:, 2:] + right
    radius = (REACH * scale).round()[:, None]
    used = (row > 0) & (row < height - 1) & (column > 0) & (column < width - 1)
    used &= (down.abs() <= radius) & (right.abs() <= radius)
    index = place[:, :1] * (height * width) + row.clamp(1, height - 2) * width + column.clamp(1, width - 2)
    values = gaussians.flatten()
    dx, dy = values[index + 1] - values[index - 1], values[index - width] - values[index + width]
    weight = torch.exp((down**2 + right**2) * (-0.5 / (1.5 * scale[:, None]) ** 2)) * torch.hypot(dx, dy) * used
    number = (torch.atan2(dy, dx) * (BINS / (2 * math.pi))).round().long() % BINS
    counts = torch.zeros(len(place), BINS, device=place.device).scatter_add_(1, number, weight)
    near, far = (counts.roll(step, 1) + counts.roll(-step, 1) for step in (1, 2))
    return (6 * counts + 4 * near + far) / 16


def _peaks(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Find the directions of highest counts (N, BINS): the row of each, (K,) int64, and its angle in radians."""
    before, after = counts.roll(1, 1), counts.roll(-1, 1)
    is_peak = (counts > before) & (counts > after) & (counts >= PEAK * counts.amax(1, keepdim=True))
    row, number = is_peak.nonzero(as_tuple=True)
    left, here, right = (each[row, number] for each in (before, counts, after))
    turned = (number + 0.5 * (left - right) / (left - 2 * here + right)) * (2 * math.pi / BINS)
    return row, (-turned) % (2 * math.pi)  # rows were counted upwards

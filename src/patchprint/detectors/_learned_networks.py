"""The networks of the detector `learned`: a score of pixels and an angle of keypoints, both unchanged when the image turns.

The score sees rotation-invariant combinations of derivatives alone, the angle is read from circles around the keypoint by a
network that treats all directions alike. So neither has to learn rotation, and a few thousand parameters are enough.
"""

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from patchprint.common.errors import UserError, parsing, require

WEIGHTS = Path(__file__).with_name("learned.safetensors")
INVARIANTS = 17
DIRECTIONS = 32
_SIGMAS = (1.0, 1.7, 2.9)  # pixels of a level
_WINDOWED = 2  # the finest sigmas have the eigenvalues of the structure tensor as well
_DARK = 0.5  # squared contrasts below this (in gray values) are noise
_RADII = (2.0, 3.5, 5.0)  # of the circles, in pixels of a level
_CIRCLE_LEVELS = (0, 2, 4)  # levels above that of the keypoint at which circles are read
_FADED = 2.0  # standard deviation (in gray values) around a keypoint below which it is noise
_FAINT = -1.7  # score of Shi and Tomasi below which there is nothing but noise
FLAT = -1e3  # scores below this are those of uniform areas
_REACH = 40  # rows beyond a band that its invariants see; a multiple of 4, like the rows of a band
_BAND = 600_000  # pixels
_CHUNK = 8192  # pixels at a time; more of them leave the cache
_SMALLEST = 32  # pixels along a side of the coarsest level

_DIFFERENCE = np.array([-0.5, 0.0, 0.5], np.float32)
_SECOND = np.array([1.0, -2.0, 1.0], np.float32)
_SAME = np.array([1.0], np.float32)


def build_pyramid(image: np.ndarray) -> list[np.ndarray]:
    """Shrink an image, uint8 (H, W), in steps of the square root of 2; the first level is the image as float32."""
    cv2 = require("cv2", extra="images")
    levels = [image.astype(np.float32)]
    while True:
        shrink = 2 ** (len(levels) / 2)
        size = (round(image.shape[1] / shrink), round(image.shape[0] / shrink))
        if min(size) < _SMALLEST:
            return levels
        if len(levels) == 1:
            levels.append(cv2.resize(cv2.GaussianBlur(levels[0], (0, 0), 0.6), size, interpolation=cv2.INTER_LINEAR))
        else:
            levels.append(cv2.resize(levels[-2], size, interpolation=cv2.INTER_AREA))


def invariants(level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the score network sees of the pixels of a level, float32 (H, W), and the score that it corrects.

    These are magnitudes of gradients, trace and determinant of the Hessian, curvature of the level lines, and eigenvalues of
    the structure tensor, all in units of the contrast around, and that contrast; the score is the logarithm of the
    smaller eigenvalue (Shi and Tomasi's).

    Shape:
        (H, W) -> (INVARIANTS, H, W), (H, W).
    """
    found = np.empty((INVARIANTS, *level.shape), np.float32)
    place = itertools.count()
    base = np.empty(0)
    blurred = [_blur(level, _SIGMAS[0])]
    for fine, coarse in itertools.pairwise(_SIGMAS):
        blurred.append(_blur(blurred[-1], (coarse**2 - fine**2) ** 0.5))
    gradients = [
        (_filter(part, _DIFFERENCE, _SAME) * s, _filter(part, _SAME, _DIFFERENCE) * s)
        for part, s in zip(blurred, _SIGMAS, strict=True)
    ]
    energies = [dx * dx + dy * dy for dx, dy in gradients]
    contrast = _mean_around(energies[1]) + _DARK
    square = 1 / contrast
    single = np.sqrt(square)
    for number, (sigma, part) in enumerate(zip(_SIGMAS, blurred, strict=True)):
        dx, dy = gradients[number]
        xx, yy = _filter(part, _SECOND, _SAME) * sigma**2, _filter(part, _SAME, _SECOND) * sigma**2
        xy = _filter(part, _DIFFERENCE, _DIFFERENCE) * sigma**2
        found[next(place)] = np.log(energies[number] * square + 0.02)
        found[next(place)] = _bounded((xx + yy) * single)
        found[next(place)] = _bounded((xx * yy - xy * xy) * square)
        found[next(place)] = _bounded((dx * dx * yy - 2 * dx * dy * xy + dy * dy * xx) * (square * single))
        if number < _WINDOWED:
            smaller, larger = _eigenvalues(dx, dy, 1.5 * sigma)
            found[next(place)] = np.log(smaller * square + 0.01)
            found[next(place)] = np.log(larger * square + 0.01)
            base = base if number else 0.5 * np.log(smaller + 0.01)
    found[next(place)] = 0.3 * np.log(contrast)
    return found, base


def _eigenvalues(dx: np.ndarray, dy: np.ndarray, window: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the structure tensor at each pixel, the smaller first."""
    xx, yy, xy = _blur(dx * dx, window), _blur(dy * dy, window), _blur(dx * dy, window)
    middle, half = 0.5 * (xx + yy), np.sqrt(0.25 * (xx - yy) ** 2 + xy * xy)
    return np.maximum(middle - half, 0), middle + half


def _mean_around(values: np.ndarray) -> np.ndarray:
    """Mean over a window of sigma 6, at a quarter of the resolution."""
    cv2 = require("cv2", extra="images")
    height, width = values.shape
    small = cv2.resize(values, (max(1, width // 4), max(1, height // 4)), interpolation=cv2.INTER_AREA)
    return cv2.resize(_blur(small, 1.5), (width, height), interpolation=cv2.INTER_LINEAR)


def _bounded(values: np.ndarray) -> np.ndarray:
    return values / (1 + np.abs(values))


def _blur(values: np.ndarray, sigma: float) -> np.ndarray:
    cv2 = require("cv2", extra="images")
    side = 2 * int(np.ceil(3 * sigma)) + 1
    return cv2.GaussianBlur(values, (side, side), sigma, borderType=cv2.BORDER_REFLECT_101)


def _filter(values: np.ndarray, along_x: np.ndarray, along_y: np.ndarray) -> np.ndarray:
    cv2 = require("cv2", extra="images")
    return cv2.sepFilter2D(values, -1, along_x, along_y, borderType=cv2.BORDER_REFLECT_101)


class ScoreNetwork(nn.Module):
    """How likely a corner is found again: a correction of the logarithm of Shi and Tomasi's score, pixel by pixel.

    ``center`` and ``spread`` are those of the invariants in training images.

    Shape:
        invariants (INVARIANTS, M), base (M,) -> (M,).
    """

    center: Tensor
    spread: Tensor

    def __init__(self, width: int = 24, second: int = 16) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(INVARIANTS))
        self.register_buffer("spread", torch.ones(INVARIANTS))
        self.first = nn.Linear(INVARIANTS, width)
        self.second = nn.Linear(width, second)
        self.last = nn.Linear(second, 1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, found: Tensor, base: Tensor) -> Tensor:
        # Pixels are the columns: transposed, these products take four times as long.
        weight = self.first.weight / self.spread
        values = F.relu(torch.addmm((self.first.bias - weight @ self.center)[:, None], weight, found))
        values = F.relu(torch.addmm(self.second.bias[:, None], self.second.weight, values))
        score = torch.addmm(self.last.bias[:, None], self.last.weight, values)[0] + base
        return score.masked_fill(base < _FAINT, 2 * FLAT)  # where all pixels are alike, all would be peaks

    @torch.no_grad()
    def of_level(self, level: np.ndarray) -> np.ndarray:
        """Score each pixel of a level, float32 (H, W) -> (H, W), in bands of rows that fit into the cache."""
        rows = max(_REACH, _BAND // level.shape[1] // 4 * 4)
        if rows >= level.shape[0]:
            return self._of_band(level)
        parts = []
        for top in range(0, level.shape[0], rows):
            start = max(0, top - _REACH)
            parts.append(self._of_band(level[start : top + rows + _REACH])[top - start :][:rows])
        return np.concatenate(parts)

    def _of_band(self, level: np.ndarray) -> np.ndarray:
        found, base = invariants(level)
        pixels, start = torch.from_numpy(found).flatten(1).split(_CHUNK, 1), torch.from_numpy(base).flatten()
        parts = [self(*part) for part in zip(pixels, start.split(_CHUNK), strict=True)]
        return torch.cat(parts).view(level.shape).numpy()


class AngleNetwork(nn.Module):
    """Direction of keypoints from circles around them, by convolutions along the circles.

    A turn of the image moves the values along the circles, and the direction turns with them. The length of the direction,
    at most 1, says how certain it is.

    Shape:
        circles (N, C, DIRECTIONS) -> directions (N, 2).
    """

    directions: Tensor

    def __init__(self, width: int = 24, second: int = 16, reach: int = 5) -> None:
        super().__init__()
        around = {"kernel_size": reach, "padding": reach // 2, "padding_mode": "circular"}
        options: dict[str, Any] = around
        self.first = nn.Conv1d(len(_RADII) * len(_CIRCLE_LEVELS), width, **options)
        self.second = nn.Conv1d(width, second, **options)
        self.last = nn.Conv1d(second, 1, **options)
        angle = torch.arange(DIRECTIONS) * (2 * torch.pi / DIRECTIONS)
        self.register_buffer("directions", torch.stack([angle.cos(), angle.sin()], 1), persistent=False)

    def forward(self, circles: Tensor) -> Tensor:
        values = self.last(F.relu(self.second(F.relu(self.first(circles)))))[:, 0]
        return values.softmax(1) @ self.directions


def read_circles(pyramid: list[np.ndarray], level: np.ndarray, xy: np.ndarray) -> Tensor:
    """Read the image on circles around keypoints, without its mean and contrast there.

    Shape:
        level (N,) int, xy (N, 2) in pixels of the image -> (N, C, DIRECTIONS).
    """
    cv2 = require("cv2", extra="images")
    circles = np.empty((len(xy), len(_RADII) * len(_CIRCLE_LEVELS), DIRECTIONS), np.float32)
    angle = np.arange(DIRECTIONS) * (2 * np.pi / DIRECTIONS)
    smooth = functools.cache(lambda number: _blur(pyramid[number], 1.0))
    size = np.array(pyramid[0].shape[::-1])
    for own in np.unique(level):
        here = np.flatnonzero(level == own)
        for place, above in enumerate(_CIRCLE_LEVELS):
            number = min(own + above, len(pyramid) - 1)
            pixels = smooth(number)
            center = (xy[here] + 0.5) * (np.array(pixels.shape[::-1]) / size) - 0.5
            missing = 2 ** ((own + above - number) / 2)  # beyond the coarsest level
            for ring, radius in enumerate(_RADII):
                x, y = (
                    (center[:, axis, None] + radius * missing * turn(angle)).astype(np.float32)
                    for axis, turn in enumerate((np.cos, np.sin))
                )
                read = cv2.remap(pixels, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
                circles[here, place * len(_RADII) + ring] = read
    circles -= circles.mean((1, 2), keepdims=True)
    circles /= circles.std((1, 2), keepdims=True) + _FADED
    return torch.from_numpy(circles)


class KeypointNetworks(nn.Module):
    """What the detector `learned` has learned: a score of pixels and an angle of keypoints."""

    def __init__(self) -> None:
        super().__init__()
        self.score = ScoreNetwork()
        self.angle = AngleNetwork()


@functools.cache
def load_networks(path: str | Path = WEIGHTS) -> KeypointNetworks:
    """Load networks that ``patchprint train detector`` wrote; by default those of the package."""
    networks = KeypointNetworks()
    if not Path(path).is_file():
        raise UserError(f"{path} is not there; give weights that patchprint train detector wrote")
    with parsing(path, "weights of a detector"):
        networks.load_state_dict(load_file(path))
    return networks.eval().requires_grad_(False)

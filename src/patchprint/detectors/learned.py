"""Corners of several scales with a learned score and a learned angle: found again in other light and at any angle."""

import dataclasses
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from patchprint.common.devices import single_thread
from patchprint.common.errors import require
from patchprint.common.types import Keypoints
from patchprint.detectors import FAINTEST, Detector, keep_inside, strongest_first
from patchprint.detectors._learned_networks import (
    FLAT,
    WEIGHTS,
    AngleNetwork,
    build_pyramid,
    load_networks,
    read_circles,
)

SIGMA = 2.0  # scale given to a corner of the finest level
PEAK = 2  # pixels of a level around a keypoint without a higher score
APART = 4  # pixels of the image between keypoints of any level: nearer ones would share their descriptor
BORDER = 6  # pixels of a level
MOST = 4096  # where no number is asked for
_SPARE = 2  # times as many are found as are asked for, so that they can be spread
_NOTHING = -1e6  # score of a pixel without a keypoint


def find_learned(
    image: np.ndarray,
    max_keypoints: int | None = None,
    mask: np.ndarray | None = None,
    weights: str | Path = WEIGHTS,
) -> Keypoints:
    """Corners, strongest first, each with one scale and one angle."""
    if min(image.shape) <= 2 * BORDER:
        return Keypoints.empty()
    with single_thread():
        networks = load_networks(weights)
        pyramid = build_pyramid(image)
        peaks, _ = find_peaks(image.shape, [networks.score.of_level(level) for level in pyramid])
        peaks = strongest_first(keep_inside(peaks, mask), _SPARE * (max_keypoints or MOST))
        return add_angles(pyramid, peaks, networks.angle)


def find_peaks(shape: tuple[int, ...], scores: list[np.ndarray]) -> tuple[Keypoints, np.ndarray]:
    """Find the peaks of the scores of all levels that no higher peak is near to, and the index of their pixel, (N,) int64.

    Pixels are counted through all levels; angles are zero. A place that is a corner in several levels is given the scale of the
    level where its score is highest.
    """
    parts, indices, before = [], [], 0
    for number, score in enumerate(scores):
        peaks, index = _peaks_of_level(shape, number, score)
        parts.append(peaks)
        indices.append(index + before)
        before += score.size
    peaks, index = Keypoints.concatenate(parts), np.concatenate(indices)
    if len(peaks) == 0:
        return peaks, index
    height = cast(Tensor, peaks.score).numpy()
    column, row = (peaks.xy[:, axis].round().long().clamp(0, shape[1 - axis] - 1).numpy() for axis in (0, 1))
    plane = np.full(shape, _NOTHING, np.float32)
    np.maximum.at(plane, (row, column), height)
    is_highest = height == _highest_near(plane, APART)[row, column]
    return peaks[is_highest], index[is_highest]


def level_of(keypoints: Keypoints) -> np.ndarray:
    """Return the level of the pyramid that keypoints were found in, (N,) int64."""
    return (2 * torch.log2(keypoints.scale / SIGMA)).round().long().numpy()


def add_angles(pyramid: list[np.ndarray], peaks: Keypoints, angle: AngleNetwork) -> Keypoints:
    """Give peaks the direction that the network sees."""
    if len(peaks) == 0:
        return peaks
    with torch.no_grad():
        circles = read_circles(pyramid, level_of(peaks), peaks.xy.numpy())
        x, y = angle(circles.to(angle.directions.device)).cpu().unbind(1)
    return dataclasses.replace(peaks, angle=torch.atan2(y, x))


def _peaks_of_level(shape: tuple[int, ...], number: int, score: np.ndarray) -> tuple[Keypoints, np.ndarray]:
    """Find the peaks of one level, with the vertex of a parabola through each and its neighbors as position."""
    is_peak = (score == _highest_near(score, PEAK)) & (score > FLAT)
    is_peak[:BORDER] = is_peak[-BORDER:] = is_peak[:, :BORDER] = is_peak[:, -BORDER:] = False
    row, column = np.nonzero(is_peak)

    def at(down: int, right: int) -> np.ndarray:
        return score[row + down, column + right]

    dx, dy, here = 0.5 * (at(0, 1) - at(0, -1)), 0.5 * (at(1, 0) - at(-1, 0)), at(0, 0)
    xx, yy = at(0, 1) + at(0, -1) - 2 * here, at(1, 0) + at(-1, 0) - 2 * here
    xy = 0.25 * (at(1, 1) + at(-1, -1) - at(1, -1) - at(-1, 1))
    determinant = xx * yy - xy * xy
    is_round = determinant > FAINTEST
    offset = np.stack([xy * dy - yy * dx, xy * dx - xx * dy]) / np.where(is_round, determinant, 1)
    offset = np.where(is_round, offset, 0).clip(-0.7, 0.7)
    stretch = np.array([shape[1] / score.shape[1], shape[0] / score.shape[0]])
    # Pixel u of a level has its center at (u + 0.5) * stretch - 0.5 of the image.
    place = (np.stack([column, row]) + offset + 0.5).T * stretch - 0.5
    scale = np.full(len(row), SIGMA * 2 ** (number / 2), np.float32)
    return Keypoints(place, scale, 0.0, here), row * score.shape[1] + column


def _highest_near(values: np.ndarray, radius: int) -> np.ndarray:
    cv2 = require("cv2", extra="images")
    offset = np.arange(-radius, radius + 1)
    disc = (
        np.hypot(offset, offset[:, None]) <= radius + 0.5
    )  # OpenCV's own ellipse is not the same after a quarter turn
    return cv2.dilate(values, disc.astype(np.uint8))


detector = Detector("corners of several scales with a learned score and angle", "other", find_learned)

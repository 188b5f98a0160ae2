"""Split points into training, validation and published test parts.

Neighboring points share pixels, so random held-out points would be seen in training. Each scene is cut by a plane across its
longest direction instead; training points whose patch shows a held-out point in any image are used for neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from patchprint.data.tracks import Tracks

TRAIN, VAL, NEITHER, TEST = 0, 1, 2, 3
PARTS = {"train": TRAIN, "val": VAL, "test": TEST}
_WIDEST_PATCH_SCALE = 16.0


def counts(part: np.ndarray) -> dict[str, int]:
    """Return how many points are in each of ``PARTS``."""
    return {name: int((part == value).sum()) for name, value in PARTS.items()}


def by_region(tracks: Tracks, fraction: float = 0.12, patch_scale: float = _WIDEST_PATCH_SCALE) -> np.ndarray:
    """Return TRAIN, VAL or NEITHER for every point, (N,) uint8; ``fraction`` of each scene's points are held out.

    ``patch_scale`` is how wide a patch is taken to be when looking for training patches that show a held-out point.
    """
    position = tracks.xyz if tracks.xyz is not None else _mean_position(tracks)
    part = np.zeros(len(tracks.scene), np.uint8)
    for scene in np.unique(tracks.scene):
        points = np.flatnonzero(tracks.scene == scene)
        along = _along_longest_axis(position[points])
        part[points[along > np.quantile(along, 1.0 - fraction)]] = VAL
    part[_shows_held_out(tracks, part == VAL, patch_scale) & (part == TRAIN)] = NEITHER
    return part


def by_scene(scene: np.ndarray, fraction: float = 0.12) -> np.ndarray:
    """Return TRAIN or VAL for every point, (N,) uint8: the last scenes are held out, or of one scene the last points."""
    names, first = np.unique(scene, return_index=True)
    part = np.zeros(len(scene), np.uint8)
    if len(names) == 1:
        part[len(scene) - int(len(scene) * fraction) :] = VAL
        return part
    ordered = names[np.argsort(first)]
    held = ordered[-max(1, round(len(ordered) * fraction)) :]
    part[np.isin(scene, held)] = VAL
    return part


def beside_test(scene: np.ndarray, is_test: np.ndarray) -> np.ndarray:
    """Return TEST where a published split says so, (N,) uint8; the other points are split by `by_scene`.

    Shape:
        scene (N,), is_test (N,) bool -> (N,).
    """
    part = np.full(len(scene), TEST, np.uint8)
    part[~is_test] = by_scene(scene[~is_test])
    return part


def _along_longest_axis(position: np.ndarray) -> np.ndarray:
    """Return the coordinate along the principal axis of the inner 90 % of the points, (N,); SfM leaves far outliers."""
    centered = position.astype(np.float64) - np.median(position, axis=0)
    radius = np.linalg.norm(centered, axis=1)
    inner = centered[radius <= np.quantile(radius, 0.9)]
    axis = np.linalg.eigh(inner.T @ inner)[1][:, -1]
    return centered @ (axis * np.sign(axis[np.argmax(np.abs(axis))]))


def _mean_position(tracks: Tracks) -> np.ndarray:
    """Return the mean position in the images, (N, 2), which stands in for missing 3D positions."""
    count = np.bincount(tracks.point, minlength=len(tracks.scene))
    sums = [np.bincount(tracks.point, tracks.xy[:, axis], len(tracks.scene)) for axis in (0, 1)]
    return np.stack(sums, axis=1) / np.maximum(count, 1)[:, None]


def _shows_held_out(tracks: Tracks, held: np.ndarray, patch_scale: float) -> np.ndarray:
    """Return whether the patch of a point reaches, in some image, the center of a held-out point, (N,) bool."""
    shows = np.zeros(len(held), bool)
    order = np.argsort(tracks.image, kind="stable")
    bounds = np.flatnonzero(np.diff(tracks.image[order])) + 1
    for views in np.split(order, bounds):
        is_held = held[tracks.point[views]]
        centers = torch.from_numpy(np.ascontiguousarray(tracks.xy[views[is_held]]))
        others = views[~is_held]
        # The corner of a turned square is the farthest that a patch can reach.
        reach = torch.from_numpy(tracks.scale[others] * (patch_scale / np.sqrt(2.0))).float()
        for start in range(0, len(others), 4096) if len(centers) else ():
            block = others[start : start + 4096]
            distance = torch.cdist(torch.from_numpy(np.ascontiguousarray(tracks.xy[block])), centers)
            near = (distance.amin(1) <= reach[start : start + 4096]).numpy()
            shows[tracks.point[block[near]]] = True
    return shows

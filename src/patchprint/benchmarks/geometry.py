"""Which keypoint of one picture is which of the other, where a homography says where every point goes."""

from __future__ import annotations

import numpy as np

from patchprint.types import Keypoints


def project(homography: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """Points (N, 2) through a homography (3, 3); those beyond the horizon become infinite."""
    points = np.concatenate([xy, np.ones((len(xy), 1))], axis=1) @ homography.T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(points[:, 2:] > 1e-9, points[:, :2] / points[:, 2:], np.inf)


def jacobian(homography: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """How a homography stretches the surroundings of each point, (N, 2) -> (N, 2, 2)."""
    w = xy @ homography[2, :2] + homography[2, 2]
    ahead = project(homography, xy)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (homography[None, :2, :2] - ahead[:, :, None] * homography[None, 2:, :2]) / w[:, None, None]


def inside(xy: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Whether points (N, 2) lie on the pixels of a picture of shape (H, W) -> (N,) bool."""
    return ((xy >= -0.5) & (xy <= np.array([shape[1], shape[0]]) - 0.5)).all(axis=1)


def reprojection_errors(a: Keypoints, b: Keypoints, homography: np.ndarray) -> np.ndarray:
    """Distance in pixels of the second picture between each keypoint of a, projected, and each of b, (N, M)."""
    ahead = project(homography, a.xy.cpu().double().numpy())
    return np.linalg.norm(ahead[:, None] - b.xy.cpu().double().numpy()[None], axis=2)


def overlap_errors(a: Keypoints, b: Keypoints, homography: np.ndarray, size: float = 30.0) -> np.ndarray:
    """One minus intersection over union of the regions of keypoints, (N, M) in [0, 1].

    The region of a is an ellipse carried to the second picture by the local affine map. As in VLBenchmarks, both regions
    are first enlarged by the factor that gives the one from a the radius ``size``, so that large regions have no easier
    life; only pairs whose centres are nearer than that can overlap. Areas are counted on a grid in the frame where the
    region of a is the unit circle.
    """
    xy_a, xy_b = a.xy.cpu().double().numpy(), b.xy.cpu().double().numpy()
    ahead = project(homography, xy_a)
    frames_a = jacobian(homography, xy_a) @ a.frames().cpu().double().numpy()
    frames_b = b.frames().cpu().double().numpy()
    errors = np.ones((len(a), len(b)))
    radius = np.sqrt(np.abs(np.linalg.det(frames_a)))
    with np.errstate(divide="ignore", invalid="ignore"):
        enlarge = size / radius
        distance = np.linalg.norm(ahead[:, None] - xy_b[None], axis=2)
        reach = enlarge * (np.linalg.norm(frames_a, ord=2, axis=(1, 2)))
        reach_b = enlarge[:, None] * np.linalg.norm(frames_b, ord=2, axis=(1, 2))[None]
    near = np.isfinite(distance) & (distance < reach[:, None] + reach_b)
    areas = np.abs(np.linalg.det(frames_a))[:, None], np.abs(np.linalg.det(frames_b))[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        near &= np.minimum(areas[0] / areas[1], areas[1] / areas[0]) > 0.25
    rows, columns = np.nonzero(near)
    for start in range(0, len(rows), 4096):
        i, j = rows[start : start + 4096], columns[start : start + 4096]
        to_circle = np.linalg.inv(frames_a[i] * enlarge[i, None, None])
        offset = np.einsum("nij,nj->ni", to_circle, xy_b[j] - ahead[i])
        other = to_circle @ (frames_b[j] * enlarge[i, None, None])
        errors[i, j] = _circle_ellipse_error(offset, other)
    return errors


def one_to_one(errors: np.ndarray, limit: float) -> int:
    """How many pairs can be joined, smallest error first, no keypoint twice: the positives there are to find."""
    rows, columns = np.nonzero(errors < limit)
    order = np.argsort(errors[rows, columns], kind="stable")
    return len(greedy_pairs(rows[order], columns[order]))


def greedy_pairs(rows: np.ndarray, columns: np.ndarray) -> list[int]:
    """Positions in the list of pairs (L,), (L,) that are kept when each row and column may be used once, first come first."""
    used_rows: set[int] = set()
    used_columns: set[int] = set()
    kept = []
    for position, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        if row not in used_rows and column not in used_columns:
            used_rows.add(row)
            used_columns.add(column)
            kept.append(position)
    return kept


def _circle_ellipse_error(offset: np.ndarray, frame: np.ndarray, steps: int = 41) -> np.ndarray:
    """One minus intersection over union of the unit circle and ellipses ``offset + frame @ circle``, (N,)."""
    line = (np.arange(steps) + 0.5) / steps * 2 - 1
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    grid = grid[(grid**2).sum(1) <= 1.0]
    local = np.einsum("nij,npj->npi", np.linalg.inv(frame), grid[None] - offset[:, None])
    share = ((local**2).sum(-1) <= 1.0).mean(axis=1) * np.pi
    union = np.pi + np.abs(np.linalg.det(frame)) * np.pi - share
    return 1.0 - share / union

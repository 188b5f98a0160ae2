"""Which keypoint of one picture is which of the other, where a homography says where every point goes."""

from __future__ import annotations

import numpy as np

from patchprint.geometry import jacobian, project
from patchprint.types import Keypoints

_OVERLAP_CHUNK = 4096


def reprojection_errors(a: Keypoints, b: Keypoints, homography: np.ndarray) -> np.ndarray:
    """Distance in pixels of the second picture between each keypoint of a, projected, and each of b, (N, M)."""
    ahead = project(homography, a.xy.cpu().double().numpy())
    return np.linalg.norm(ahead[:, None] - b.xy.cpu().double().numpy()[None], axis=2)


def overlap_errors(a: Keypoints, b: Keypoints, homography: np.ndarray, size: float = 30.0) -> np.ndarray:
    """One minus intersection over union of the regions of keypoints, (N, M); what is above 0.5 is only told to be so.

    The region of a is an ellipse, carried to the second picture by the local affine map. As in VLBenchmarks, both regions
    are first enlarged by the factor that gives the one from a the radius ``size``, so that large regions have no easier
    life. Areas are counted on a grid in the frame where the region of a is the unit circle.

    Only near pairs are counted. If the centre of one region lies outside of the other, a line through that centre leaves
    half of its region without overlap, so that the error is above 0.5; the same holds for areas that differ by half.
    """
    xy_a, xy_b = a.xy.cpu().double().numpy(), b.xy.cpu().double().numpy()
    ahead = project(homography, xy_a)
    errors = np.ones((len(a), len(b)))
    seen = np.flatnonzero(np.isfinite(ahead).all(axis=1))
    frames_a = (jacobian(homography, xy_a) @ a.frames().cpu().double().numpy())[seen]
    frames_b = b.frames().cpu().double().numpy()
    area_a, area_b = np.abs(np.linalg.det(frames_a)), np.abs(np.linalg.det(frames_b))
    enlarge = size / np.sqrt(area_a)
    to_circle = np.linalg.inv(frames_a * enlarge[:, None, None])
    offset = np.einsum("nij,nmj->nmi", to_circle, xy_b[None] - ahead[seen][:, None])
    ratio = area_a[:, None] / area_b[None]
    rows, columns = np.nonzero(((offset**2).sum(-1) < 1.0) & (np.minimum(ratio, 1 / ratio) > 0.5))
    for start in range(0, len(rows), _OVERLAP_CHUNK):
        i, j = rows[start : start + _OVERLAP_CHUNK], columns[start : start + _OVERLAP_CHUNK]
        other = to_circle[i] @ (frames_b[j] * enlarge[i, None, None])
        errors[seen[i], j] = _circle_ellipse_error(offset[i, j], other)
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


def _circle_ellipse_error(offset: np.ndarray, frame: np.ndarray, steps: int = 31) -> np.ndarray:
    """One minus intersection over union of the unit circle and ellipses ``offset + frame @ circle``, (N,)."""
    line = (np.arange(steps) + 0.5) / steps * 2 - 1
    x, y = (axis.ravel() for axis in np.meshgrid(line, line))
    x, y = x[x**2 + y**2 <= 1.0], y[x**2 + y**2 <= 1.0]
    to_ellipse = np.linalg.inv(frame)
    dx, dy = x[None] - offset[:, :1], y[None] - offset[:, 1:]
    inner = sum((to_ellipse[:, row, :1] * dx + to_ellipse[:, row, 1:] * dy) ** 2 for row in (0, 1)) <= 1.0
    share = inner.mean(axis=1) * np.pi
    return 1.0 - share / (np.pi + np.abs(np.linalg.det(frame)) * np.pi - share)

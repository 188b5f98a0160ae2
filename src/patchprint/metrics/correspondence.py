"""True correspondences of two images by a homography, and greedy one-to-one matching, in bounded memory."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from patchprint.common.types import Keypoints
from patchprint.ops.distances import nearest
from patchprint.ops.geometry import jacobian, project

_CHUNK_CELLS = 1 << 19  # pairs of keypoints looked at together
_OVERLAP_CHUNK = 1024  # pairs of regions whose overlap is counted together
_KNOWN = 32  # neighbors of each row that are kept; more are looked up when all are taken


@dataclass(frozen=True, eq=False)
class Counterparts:
    """The pairs of keypoints of two images that show the same place, in the order of the first, then of the second.

    Shape:
        rows (C,), columns (C,): int64 indices of the first and the second image; errors (C,) float64, smaller is better.
    """

    rows: np.ndarray
    columns: np.ndarray
    errors: np.ndarray

    def contain(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Which of the given pairs are among them: (M,), (M,) -> (M,) bool."""
        ours, asked = ((i.astype(np.int64) << 32) | j for i, j in ((self.rows, self.columns), (rows, columns)))
        return np.isin(asked, ours)

    def one_to_one(self) -> int:
        """How many can be joined, smallest error first, no keypoint twice: the positives there are to find."""
        order = np.argsort(self.errors, kind="stable")
        used: tuple[set[int], set[int]] = set(), set()
        for row, column in zip(self.rows[order].tolist(), self.columns[order].tolist(), strict=True):
            if row not in used[0] and column not in used[1]:
                used[0].add(row)
                used[1].add(column)
        return len(used[0])


def reprojection_errors(a: Keypoints, b: Keypoints, homography: np.ndarray) -> np.ndarray:
    """Distance in pixels of the second image between keypoint i of a, projected, and keypoint i of b, (N,)."""
    return np.linalg.norm(project(homography, _positions(a)) - _positions(b), axis=1)


def within_pixels(a: Keypoints, b: Keypoints, homography: np.ndarray, px: float) -> Counterparts:
    """Pairs that are less than ``px`` pixels of the second image apart after projection; the error is that distance."""
    ahead, there = project(homography, _positions(a)), _positions(b)
    found = []
    for rows in _row_chunks(len(a), len(b)):
        distance = np.linalg.norm(ahead[rows, None] - there[None], axis=2)
        i, j = np.nonzero(distance < px)
        found.append((i + rows.start, j, distance[i, j]))
    return _together(found)


def within_overlap(
    a: Keypoints, b: Keypoints, homography: np.ndarray, limit: float, size: float = 30.0
) -> Counterparts:
    """Pairs whose regions overlap well: one minus intersection over union is below ``limit``, which is at most 0.5.

    The region of a is an ellipse, carried to the second image by the local affine map. As in VLBenchmarks, both regions
    are first enlarged by the factor that gives the one from a the radius ``size``. Areas are counted on a grid in the frame
    where the region of a is the unit circle.

    Only near pairs are counted. If the center of one region lies outside of the other, a line through that center leaves
    half of its region without overlap, so that the error is above 0.5; the same holds for areas that differ by half.
    """
    ahead, there = project(homography, _positions(a)), _positions(b)
    seen = np.flatnonzero(np.isfinite(ahead).all(axis=1))
    frames_a = (jacobian(homography, _positions(a)) @ a.frames().cpu().double().numpy())[seen]
    frames_b = b.frames().cpu().double().numpy()
    area_a, area_b = np.abs(np.linalg.det(frames_a)), np.abs(np.linalg.det(frames_b))
    enlarge = size / np.sqrt(area_a)
    to_circle = np.linalg.inv(frames_a * enlarge[:, None, None])
    found = []
    for rows in _row_chunks(len(seen), len(b)):
        offset = np.einsum("nij,nmj->nmi", to_circle[rows], there[None] - ahead[seen[rows]][:, None])
        ratio = area_a[rows, None] / area_b[None]
        near = ((offset**2).sum(-1) < 1.0) & (np.minimum(ratio, 1 / ratio) > 0.5)
        pairs = np.argwhere(near)
        for start in range(0, len(pairs), _OVERLAP_CHUNK):
            i, j = pairs[start : start + _OVERLAP_CHUNK].T
            other = to_circle[rows][i] @ (frames_b[j] * enlarge[rows][i, None, None])
            errors = _circle_ellipse_error(offset[i, j], other)
            good = errors < limit
            found.append((seen[rows][i[good]], j[good], errors[good]))
    return _together(found)


def wholly_inside(keypoints: Keypoints, shape: tuple[int, ...], homography: np.ndarray | None = None) -> np.ndarray:
    """Whether the regions of keypoints, carried by a homography if one is given, lie within an image of shape (H, W), (N,)."""
    xy, frames = _positions(keypoints), keypoints.frames().cpu().double().numpy()
    with np.errstate(invalid="ignore"):  # behind the horizon nothing is finite
        if homography is not None:
            frames, xy = jacobian(homography, xy) @ frames, project(homography, xy)
        reach = np.linalg.norm(frames, axis=2)  # of an ellipse along x and y
        beyond = np.array([shape[1], shape[0]]) - 0.5
        return ((xy - reach >= -0.5) & (xy + reach <= beyond)).all(axis=1)


def join_nearest(a: Tensor, b: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Greedy one-to-one assignment by increasing distance (VLBenchmarks' matching).

    Of equal distances the first row comes first, then the first column. Every row waits in a queue with the nearest column that
    was free when it came in; a row whose column was taken meanwhile goes back with its next one.

    Shape:
        a (N, D), b (M, D) -> rows, columns int64 and exact distances float64, each (min(N, M),), nearest first.
    """
    free = np.ones(len(b), dtype=bool)
    known_distance, known_column = (found.numpy() for found in nearest(a, b, min(_KNOWN, len(b)), exact=True))

    def candidates(row: int) -> Iterator[tuple[float, int]]:
        yield from zip(known_distance[row].tolist(), known_column[row].tolist(), strict=True)
        while free.any():
            others = np.flatnonzero(free)
            distance, place = nearest(a[row : row + 1], b[others], min(_KNOWN, len(others)), exact=True)
            yield from zip(distance[0].tolist(), others[place[0].numpy()].tolist(), strict=True)

    rows = [candidates(row) for row in range(len(a))]
    queue = [(distance, row, column) for row, of_row in enumerate(rows) for distance, column in [next(of_row)]]
    heapq.heapify(queue)
    joined: list[tuple[int, int, float]] = []
    while queue and len(joined) < len(b):
        distance, row, column = heapq.heappop(queue)
        if free[column]:
            free[column] = False
            joined.append((row, column, distance))
        else:
            distance, column = next(candidate for candidate in rows[row] if free[candidate[1]])
            heapq.heappush(queue, (distance, row, column))
    found = np.array(joined, dtype=np.float64).reshape(-1, 3)
    return found[:, 0].astype(np.int64), found[:, 1].astype(np.int64), found[:, 2]


def _positions(keypoints: Keypoints) -> np.ndarray:
    return keypoints.xy.cpu().double().numpy()


def _row_chunks(rows: int, columns: int) -> Iterator[slice]:
    step = max(1, _CHUNK_CELLS // max(1, columns))
    return (slice(start, start + step) for start in range(0, rows, step))


def _together(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Counterparts:
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    return Counterparts(*(np.concatenate(arrays) for arrays in zip(nothing, *parts, strict=True)))


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

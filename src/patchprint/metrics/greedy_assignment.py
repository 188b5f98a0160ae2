"""Two sets of prints joined one to one, nearest first (VLBenchmarks' greedy matching), without all distances at once."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
from torch import Tensor

from patchprint.ops.distances import nearest

_KNOWN = 32  # neighbors of each row that are kept; more are looked up when all of them are taken


def join_nearest(a: Tensor, b: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pair with the least distance, then the least of what neither has taken part in, until one side is used up.

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

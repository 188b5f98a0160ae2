"""Greedy joining against a sort of all distances, in memory that does not grow with the square of the keypoints."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from patchprint.metrics.correspondence import join_nearest
from patchprint.ops.distances import distance_matrix, pack_bits
from support.peak_memory import memory_grows_by_less_than


def joined_by_sorting(a: torch.Tensor, b: torch.Tensor) -> list[tuple[int, int, float]]:
    matrix = distance_matrix(a, b).numpy()
    rows, columns, result = set(), set(), []
    for cell in np.argsort(matrix, axis=None, kind="stable").tolist():
        row, column = divmod(cell, len(b))
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            result.append((row, column, matrix[row, column]))
    return result


def descriptors(kind: str, count: int, seed: int) -> torch.Tensor:
    values = torch.randn(count, 16, generator=torch.Generator().manual_seed(seed))
    return {"floats": values, "bits": pack_bits(values), "constant": torch.ones(count, 16)}[kind]


@pytest.mark.parametrize("kind", ["floats", "bits", "constant"])
@pytest.mark.parametrize(("first", "second"), [(90, 150), (150, 90), (40, 40), (3, 1), (1, 3)])
def test_the_same_pairs_in_the_same_order_as_by_sorting(kind: str, first: int, second: int) -> None:
    a, b = descriptors(kind, first, 1), descriptors(kind, second, 2)
    rows, columns, distance = join_nearest(a, b)
    assert list(zip(rows.tolist(), columns.tolist(), distance.tolist(), strict=True)) == joined_by_sorting(a, b)


def test_crowds_around_one_descriptor_ask_for_more_neighbors() -> None:
    """All rows know the same few columns; most must look further, one after another."""
    a = torch.zeros(120, 4) + torch.arange(120)[:, None] * 1e-3
    b = torch.arange(120.0)[:, None].expand(-1, 4).contiguous()
    rows, columns, _ = join_nearest(a, b)
    assert sorted(columns.tolist()) == list(range(120))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [pair[:2] for pair in joined_by_sorting(a, b)]


def test_memory_does_not_hold_all_distances() -> None:
    """5000 x 5000 distances take 191 MiB, sorted they took 1.8 GiB at 4000 keypoints."""
    a, b = torch.randn(5000, 8), torch.randn(5000, 8)
    join_nearest(a[:300], b[:300])
    with memory_grows_by_less_than(150):
        rows, _, distance = join_nearest(a, b)
    assert len(rows) == 5000
    assert (np.diff(distance) >= 0).all()

"""Reprojection and overlap in cases whose answer is known, and greedy joining against a sort of all distances."""

import math

import numpy as np
import pytest
import torch

from patchprint.common.types import Keypoints
from patchprint.metrics import correspondence
from patchprint.metrics.correspondence import (
    Counterparts,
    join_nearest,
    reprojection_errors,
    wholly_inside,
    within_overlap,
    within_pixels,
)
from patchprint.ops.distances import distance_matrix, pack_bits
from support.peak_memory import memory_grows_by_less_than

TILT = np.array([[0.9, 0.1, 5], [-0.1, 1.1, -3], [2e-4, 1e-4, 1]])


def keypoints(*rows: tuple[float, float, float]) -> Keypoints:
    values = torch.tensor(rows)
    return Keypoints(values[:, :2], values[:, 2], torch.zeros(len(rows)))


def scattered(count: int, seed: int, side: float = 300) -> Keypoints:
    rng = torch.Generator().manual_seed(seed)
    return Keypoints(
        torch.rand(count, 2, generator=rng) * side, torch.rand(count, generator=rng) * 4 + 2, torch.zeros(count)
    )


def matrix(pairs: Counterparts, shape: tuple[int, int]) -> np.ndarray:
    """Errors of all pairs, 1 where there is none."""
    errors = np.ones(shape)
    errors[pairs.rows, pairs.columns] = pairs.errors
    return errors


def test_reprojection_in_pixels() -> None:
    shift = np.array([[1.0, 0, 3], [0, 1, 4], [0, 0, 1]])
    a, b = keypoints((0, 0, 1), (0, 0, 1)), keypoints((3, 4, 1), (0, 0, 1))
    np.testing.assert_allclose(reprojection_errors(a, b, shift), [0.0, 5.0])
    near = within_pixels(a, b, shift, 5.0)
    assert (near.rows.tolist(), near.columns.tolist(), near.errors.tolist()) == ([0, 1], [0, 0], [0.0, 0.0])
    assert len(within_pixels(a, b, shift, 5.1).rows) == 4


def test_pairs_in_chunks_are_all_pairs_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = scattered(70, 1), scattered(90, 2)
    ways = (lambda: within_pixels(a, b, TILT, 20.0), lambda: within_overlap(a, b, TILT, 0.5))
    whole = [way() for way in ways]
    plain = np.linalg.norm(
        np.array([(h := TILT @ [*xy, 1])[:2] / h[2] for xy in a.xy.double().numpy()])[:, None] - b.xy.double().numpy(),
        axis=2,
    )
    rows, columns = np.nonzero(plain < 20.0)
    assert (whole[0].rows.tolist(), whole[0].columns.tolist()) == (rows.tolist(), columns.tolist())
    np.testing.assert_allclose(whole[0].errors, plain[rows, columns])
    monkeypatch.setattr(correspondence, "_CHUNK_CELLS", 100)
    monkeypatch.setattr(correspondence, "_OVERLAP_CHUNK", 2)
    for way, wanted in zip(ways, whole, strict=True):
        found = way()
        assert len(found.rows) > 10
        for name in ("rows", "columns", "errors"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.parametrize("limit", ["pixels", "overlap"])
def test_memory_does_not_hold_all_pairs(limit: str) -> None:
    """4000 x 4000 errors alone take 122 MiB, with what it takes to compute them five times as much."""
    a, b = scattered(4000, 1, 2000), scattered(4000, 2, 2000)
    find = within_pixels if limit == "pixels" else within_overlap
    find(a[:100], b[:100], TILT, 0.4)
    with memory_grows_by_less_than(100):
        assert len(find(a, b, TILT, 0.4).rows) > 0


def test_overlap_of_equal_and_nested_circles() -> None:
    a, b = keypoints((50, 50, 4)), keypoints((50, 50, 4), (50, 50, 4 * math.sqrt(1.6)), (200, 50, 4))
    np.testing.assert_allclose(
        matrix(within_overlap(a, b, np.eye(3), 0.5), (1, 3)), [[0.0, 1 - 1 / 1.6, 1.0]], atol=0.02
    )
    assert within_overlap(a, b, np.eye(3), 0.3).columns.tolist() == [0]


def test_overlap_of_shifted_circles() -> None:
    # Regions are enlarged to radius 30; unit circles at distance 1/3 share 2 acos(1/6) - sqrt(35) / 18.
    share = 2 * math.acos(1 / 6) - math.sqrt(35) / 18
    errors = within_overlap(keypoints((50, 50, 4)), keypoints((60, 50, 4)), np.eye(3), 0.5).errors
    assert errors[0] == pytest.approx(1 - share / (2 * math.pi - share), abs=0.02)


def test_overlap_follows_the_scale_of_the_image() -> None:
    double = np.diag([2.0, 2.0, 1.0])
    found = within_overlap(keypoints((50, 50, 4)), keypoints((100, 100, 8), (100, 100, 4)), double, 0.5)
    assert found.columns.tolist() == [0]
    assert found.errors[0] < 0.02


def test_no_keypoint_is_joined_twice() -> None:
    pairs = Counterparts(np.array([0, 0, 1, 2, 2]), np.array([0, 1, 0, 0, 1]), np.array([0.1, 0.2, 0.3, 0.2, 0.1]))
    assert pairs.one_to_one() == 2
    assert pairs.contain(np.array([0, 1, 2, 1]), np.array([1, 1, 2, 0])).tolist() == [True, False, False, True]


def test_regions_that_the_border_cuts() -> None:
    points = keypoints((50, 40, 10), (5, 40, 10), (50, 74, 10), (95, 40, 4), (95, 40, 5))
    assert wholly_inside(points, (80, 100)).tolist() == [True, False, False, True, False]
    # Twice as far from the corner and twice as large: only what ends before the middle stays.
    twice = np.diag([2.0, 2.0, 1.0])
    assert wholly_inside(keypoints((30, 20, 10), (45, 20, 3)), (80, 100), twice).tolist() == [True, True]
    assert wholly_inside(keypoints((45, 20, 6)), (80, 100), twice).tolist() == [False]
    behind = np.array([[1.0, 0, 0], [0, 1, 0], [-0.1, 0, 1]])
    assert wholly_inside(keypoints((30, 20, 1)), (80, 100), behind).tolist() == [False]


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


def test_joining_does_not_hold_all_distances() -> None:
    """5000 x 5000 distances take 191 MiB, sorted they took 1.8 GiB at 4000 keypoints."""
    a, b = torch.randn(5000, 8), torch.randn(5000, 8)
    join_nearest(a[:300], b[:300])
    with memory_grows_by_less_than(150):
        rows, _, distance = join_nearest(a, b)
    assert len(rows) == 5000
    assert (np.diff(distance) >= 0).all()

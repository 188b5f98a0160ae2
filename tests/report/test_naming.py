"""Names in a drawing: beside their dots, not on each other, inside."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from patchprint.report.naming import put_names

figures = pytest.importorskip("matplotlib.figure")


def drawn(named: list[tuple[str, list[tuple[float, float]]]]) -> tuple[list[np.ndarray], np.ndarray]:
    """The boxes of the names as they are in the end, and that of the axes."""
    figure = figures.Figure(figsize=(10, 5.2), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    for _, places in named:
        axes.plot(*zip(*places, strict=True), "o-")
    axes.margins(x=0.08, y=0.08)
    put_names(axes, named)
    figure.draw_without_rendering()
    return [text.get_window_extent().extents for text in axes.texts], axes.get_window_extent().extents


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.prod((np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])).clip(0)))


def test_sixteen_names_cover_neither_each_other_nor_the_edge() -> None:
    rng = np.random.default_rng(0)
    speed, quality = 10 ** rng.uniform(1.8, 2.9, 16), rng.uniform(0.6, 0.72, 16)
    named = [(f"some.model-{n}", [(2.1 * x, y), (x, y)]) for n, (x, y) in enumerate(zip(speed, quality, strict=True))]
    boxes, inside = drawn(named)
    assert len(boxes) == 16
    assert all(overlap(a, b) < 1 for a, b in itertools.combinations(boxes, 2))
    assert all(overlap(box, inside) > 0.99 * np.prod(box[2:] - box[:2]) for box in boxes)


def test_two_at_one_place_stand_on_two_sides() -> None:
    boxes, _ = drawn([("first", [(100.0, 0.5)]), ("second", [(100.0, 0.5)]), ("far", [(900.0, 0.7)])])
    assert overlap(boxes[0], boxes[1]) == 0

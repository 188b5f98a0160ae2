"""Long curves made short: nothing between the least and the largest is hidden."""

from __future__ import annotations

import numpy as np

from patchprint.report.thinning import thinned


def test_short_curves_stay_as_they_are() -> None:
    found = thinned([1, 2, 3], [5.0, float("nan"), 7.0])
    assert found == ([1.0, 3.0], [5.0, 7.0], None, None)
    assert thinned([], []).x == []


def test_long_curves_keep_their_extremes_and_their_mean() -> None:
    x, y = np.arange(200_000), np.random.default_rng(0).normal(size=200_000)
    y[123_456] = 50.0
    found = thinned(x, y)
    assert found.low is not None and found.high is not None
    assert len(found.x) == 300 and found.x == sorted(found.x)
    assert max(found.high) == 50.0 and min(found.low) == y.min()
    assert abs(np.mean(found.y) - y.mean()) < 1e-3
    assert all(low <= mean <= high for low, mean, high in zip(found.low, found.y, found.high, strict=True))


def test_a_curve_with_gaps_has_no_stretches_without_values() -> None:
    x = [*range(1000), *range(9000, 10_000)]
    found = thinned(x, [1.0] * len(x))
    assert len(found.x) < 100 and set(found.y) == {1.0}
    assert thinned([5] * 1000, [1.0] * 1000).y == [1.0]

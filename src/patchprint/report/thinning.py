"""Long curves made short enough to draw, without hiding what they do: the mean, the least and the largest of each stretch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

STRETCHES = 300
NOTE = (
    f"Curves of more than {STRETCHES} points are drawn in {STRETCHES} stretches of equal length: the line is the mean of each, "
    "the band reaches from its least to its largest value."
)


class Thinned(NamedTuple):
    """Stretches of a curve in order; ``low`` and ``high`` are None where every point is there.

    Shape:
        x, y, low, high: N numbers each.
    """

    x: list[float]
    y: list[float]
    low: list[float] | None = None
    high: list[float] | None = None


def thinned(x: Sequence[float], y: Sequence[float], most: int = STRETCHES) -> Thinned:
    """A curve in at most ``most`` points; values that are not finite are left out.

    Shape:
        x (N,) in order, y (N,) -> at most ``most`` of each.
    """
    places, values = np.asarray(x, np.float64), np.asarray(y, np.float64)
    kept = np.isfinite(values) & np.isfinite(places)
    places, values = places[kept], values[kept]
    if len(places) <= most:
        return Thinned(places.tolist(), values.tolist())
    reach = places[-1] - places[0]
    stretch = np.minimum((places - places[0]) / (reach or 1.0) * most, most - 1).astype(np.int64)
    starts = np.flatnonzero(np.diff(stretch, prepend=-1))
    count = np.diff(starts, append=len(places))
    means = [np.add.reduceat(each, starts) / count for each in (places, values)]
    low, high = (extreme.reduceat(values, starts) for extreme in (np.minimum, np.maximum))
    return Thinned(means[0].tolist(), means[1].tolist(), low.tolist(), high.tolist())

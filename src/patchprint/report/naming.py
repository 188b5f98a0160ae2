"""Names beside the dots of a drawing, where they cover neither each other nor what is drawn."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

_NEAR, _FAR = 7.0, 15.0  # points between a dot and its name; there a thin line leads to it
_DOT = 5.0  # half the side of what a dot takes
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))

Place = tuple[float, float]


def put_names(axes: Any, named: Sequence[tuple[str, Sequence[Place]]]) -> None:
    """Write each name beside one of its places, which a line joins; the best of some spots is taken, one name after the other.

    The axes have their limits and labels by now.
    """
    figure = axes.figure
    figure.draw_without_rendering()  # settles where everything is
    pixels = figure.dpi / 72
    joined = [axes.transData.transform(places) for _, places in named]
    taken = [np.array([*place - _DOT * pixels, *place + _DOT * pixels]) for place in _along_lines(joined)]
    legend = axes.get_legend()
    if legend is not None:
        taken.append(_box(legend))
    inside = _box(axes)
    for (name, places), ends in zip(named, joined, strict=True):
        text = axes.annotate(name, places[0], (0, 0), textcoords="offset points", fontsize="small")
        text.set_in_layout(False)
        spots = list(itertools.product(range(len(ends)), (_NEAR, _FAR), _SIDES))
        boxes = [_spot(text, ends[end], distance * pixels, side) for end, distance, side in spots]
        # Where two are as good, the nearer side of the last place, which is mostly the rightmost one.
        best = min(range(len(spots)), key=lambda number: (_covered(boxes[number], taken, inside), number))
        end, distance, (right, up) = spots[best]
        text.xy = places[end]
        text.set(ha=("center", "left", "right")[right], va=("center", "bottom", "top")[up])
        text.set_position((right * distance, up * distance))
        taken.append(boxes[best])


def _along_lines(joined: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The places, and some between those that follow each other."""
    found = []
    for ends in joined:
        found += list(ends)
        for first, second in itertools.pairwise(ends):
            steps = int(np.hypot(*(second - first)) // 10)
            found += [first + (second - first) * step / steps for step in range(1, steps)]
    return found


def _spot(text: Any, place: np.ndarray, distance: float, side: tuple[int, int]) -> np.ndarray:
    """The box (left, bottom, right, top) of a text on one side of a place."""
    left, bottom, right, top = _box(text)
    size = np.array([right - left, top - bottom])
    corner = place + distance * np.array(side) + (np.array(side) - 1) * size / 2
    return np.concatenate([corner, corner + size])


def _box(artist: Any) -> np.ndarray:
    return np.array(artist.get_window_extent().extents)


def _covered(box: np.ndarray, taken: Sequence[np.ndarray], inside: np.ndarray) -> float:
    """Square pixels that a box shares with others, and those outside."""
    shared = sum(_shared(box, other) for other in taken)
    return shared + float(np.prod(box[2:] - box[:2])) - _shared(box, inside)


def _shared(box: np.ndarray, other: np.ndarray) -> float:
    overlap = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    return float(np.prod(overlap.clip(0)))

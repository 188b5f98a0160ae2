"""What the studies of HyNet share: the slope of its similarity, what is measured on HPatches."""

from __future__ import annotations

from functools import cache
from math import cos, pi, sin

from patchprint.studies import Column, Measure

SETS = {
    "train": "store to learn from: UBC's Liberty",
    "hpatches": "store of HPatches, or one made of image sequences (16 views of a point)",
}
MEASURES = {"hpatches": Measure("hpatches", on="hpatches")}
MATCHING = Column("matching mAP", "hpatches.matching", scale=100)
COLUMNS = (
    MATCHING,
    Column("verification mAP", "hpatches.verification", scale=100),
    Column("retrieval mAP", "hpatches.retrieval", scale=100),
)
NOTES = (
    "mAP in percent, of the weights that held-out points chose; the authors trained on Liberty and chose on test sets."
)
_ANGLES = 10_000


def hybrid_slope(theta: float, alpha: float) -> float:
    """Of ``alpha (1 - cos theta) + 2 sin(theta / 2)``, the hybrid similarity without its factor 1/Z."""
    return alpha * sin(theta) + cos(theta / 2)


def normalized_slope(theta: float, alpha: float) -> float:
    """That slope in units of the largest one."""
    return hybrid_slope(theta, alpha) / largest_slope(alpha)


@cache
def largest_slope(alpha: float) -> float:
    """The paper's Z."""
    return max(hybrid_slope(pi * number / _ANGLES, alpha) for number in range(_ANGLES + 1))

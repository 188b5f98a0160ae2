"""What the studies of metric learning on whole images share: losses with their batches, what holds norms, what is measured."""

from __future__ import annotations

from typing import Any

from patchprint.studies import Column, Measure

RECIPE = "metric-lite0"
SETS = {"cub": "labeled images: CUB-200-2011", "cars": "labeled images: Cars196"}

# 120 images in a batch; images of a class, and weight of SEC.
_LOSSES = {
    "triplet": (3, 1.0),
    "semihard": (3, 0.5),
    "n-pair": (2, 1.0),
    "multi-similarity": (5, 1.0),
    "tuplet-margin": (4, 1.0),
}
LOSSES = tuple(_LOSSES)
NORMS = ("plain", "L2 penalty", "SEC")
L2_PENALTY = 0.005  # the best of the author response's Table 2


def settings(loss: str, norms: str = "plain") -> dict[str, Any]:
    """Settings of a run with this loss and what holds its norms."""
    views, weight = _LOSSES[loss]
    held = {"plain": {}, "L2 penalty": {"norm_penalty": L2_PENALTY}, "SEC": {"sec": weight}}
    return {"loss": loss, "views": views, "batch": 120 // views, **held[norms]}


MEASURES = {
    "test": Measure("retrieval"),
    "training": Measure("retrieval", settings={"split": "train", "clusters": False}),
}
COLUMNS = (
    Column("NMI", "test.nmi", scale=100),
    Column("F1", "test.f1", scale=100),
    Column("R@1", "test.recall.1", scale=100),
    Column("norm variance", "training.norm_variance", digits=3, compared=False),
    Column("norm mean", "training.norm_mean", compared=False),
)
NOTES = (
    "NMI, F1 and R@1 in percent, on classes that training never saw; norms over images of training classes. "
    "Published: BN-Inception at 227 pixels, 8000 steps, probably the best test step; ours: the recipe metric-lite0 "
    "(EfficientNet-Lite0 at 128 pixels), the last step. Gains can be compared, levels cannot."
)


def published(*values: float, norm_mean: float | None = None) -> dict[str, float]:
    """NMI, F1 and R@1 as the paper prints them, by the titles of the columns; none where it prints none."""
    found = dict(zip(("NMI", "F1", "R@1"), values, strict=False))
    return found if norm_mean is None else {**found, "norm mean": norm_mean}

"""What the studies of metric learning on whole images share: losses with their settings, and what is measured."""

from __future__ import annotations

from typing import Any

from patchprint.studies import Column, Measure
from patchprint.training.image_recipes import BATCHES

RECIPE = "metric-lite0"
SETS = {"cub": "labeled images: CUB-200-2011", "cars": "labeled images: Cars196"}
LOSSES = tuple(BATCHES)
NORMS = ("plain", "L2 penalty", "SEC")
# The author response's Table 2 has the best weight for Cars, the released code's README that for CUB.
L2_PENALTY = {"cub": 1e-4, "cars": 5e-3}
# Weights of SEC on the validation classes of `metric-sec-weight`. On record are 1 (CUB, triplet) and 0.5 (Cars, semi-hard).
SEC_WEIGHT = {
    data: {"triplet": 1.0, "semihard": 0.5, "n-pair": 0.3, "multi-similarity": 0.1, "tuplet-margin": 0.3}
    for data in SETS
}
# Rate of the head, of all three rows of a loss. Two losses are worse than the pretrained features at the rate of the recipe,
# 1e-4; theirs is near that of the paper for a run of a quarter of its length.
RATE = {"triplet": 2e-5, "tuplet-margin": 2e-5}
# Multi-similarity without SEC has a rate of its own in the paper (a fifth, half) and no batch norm before the head.
_PLAIN_MULTI_SIMILARITY = {"cub": {"lr": 2e-5}, "cars": {"lr": 5e-5}}
# Variances of norms over Cars' training images, which the author response tells in its text: plain, SEC.
NORM_VARIANCE = {
    "triplet": (5.77, 0.02),
    "semihard": (2.82, 0.03),
    "n-pair": (1.76, 0.13),
    "multi-similarity": (1.68, 0.004),
}


def settings(data: str, loss: str, norms: str = "plain") -> dict[str, Any]:
    """Return the settings of a run on a set with this loss and one of NORMS."""
    if norms == "SEC":
        return {**at_one_rate(loss), "sec": SEC_WEIGHT[data][loss]}
    held = {"norm_penalty": L2_PENALTY[data]} if norms == "L2 penalty" else {}
    if loss == "multi-similarity":
        own = {**_PLAIN_MULTI_SIMILARITY[data], "network_options": {"feature_norm": False}}
        return {**at_one_rate(loss), **own, **held}
    return {**at_one_rate(loss), **held}


def at_one_rate(loss: str) -> dict[str, Any]:
    """Return the settings of a run with this loss that are the same with and without SEC."""
    batch, views = BATCHES[loss]
    rate = {"lr": RATE[loss]} if loss in RATE else {}
    return {"loss": loss, "views": views, "batch": batch, **rate}


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


def published(*values: float, norm_mean: float | None = None, norm_variance: float | None = None) -> dict[str, float]:
    """NMI, F1 and R@1 as the paper prints them, by the titles of the columns; none where it prints none."""
    found = dict(zip(("NMI", "F1", "R@1"), values, strict=False))
    norms = {"norm mean": norm_mean, "norm variance": norm_variance}
    return found | {title: value for title, value in norms.items() if value is not None}


def published_variance(data: str, loss: str, norms: str) -> float | None:
    """Return the variance of the norms that the author response tells for a row, None where it tells none."""
    if data != "cars" or loss not in NORM_VARIANCE or norms == "L2 penalty":
        return None
    return NORM_VARIANCE[loss][norms == "SEC"]

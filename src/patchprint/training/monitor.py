"""Diagnostics of a batch, computed when a line is logged."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

BINS = 60  # of a histogram
LARGEST = {
    "positive": (0.0, math.pi),
    "negative": (0.0, math.pi),
    "relative": (-math.pi, math.pi),
}  # angles, in radians


@torch.no_grad()
def monitor(desc: Tensor, raw: Tensor, label: Tensor | None = None) -> dict[str, Tensor]:
    """Mean distance of the first two views, mean distance of the nearest other point, mean and variance of the norms.

    Shape:
        desc (P, K, D) unit length, raw (P, K, D), label (P,) where rows of one point follow each other, K = 1 then
        -> 0-dim each, on their device.
    """
    norm = raw.float().norm(dim=-1)
    one, other = desc[:, :2].unbind(1) if label is None else _first_two_rows(desc[:, 0], label)
    cosine = one @ other.T
    distance = (2 - 2 * cosine).clamp(min=0).sqrt()
    same = torch.eye(len(distance), dtype=torch.bool, device=distance.device)
    return {
        "distance/positive": distance.diagonal().mean(),
        "distance/negative": distance.masked_fill(same, torch.inf).amin(1).mean(),
        "norm/mean": norm.mean(),
        "norm/variance": norm.var(),
    }


@torch.no_grad()
def angle_histograms(desc: Tensor, label: Tensor | None = None) -> dict[str, list[int]]:
    """How many points of a batch have which angles between descriptors: of their two views, from these to the nearest other
    point (seen from either of them), and the first less the second.

    Shape:
        desc (P, K, D) unit length, label as of `monitor` -> BINS counts each, over equal parts of the ranges in LARGEST.
    """
    one, other = desc[:, :2].unbind(1) if label is None else _first_two_rows(desc[:, 0], label)
    cosine = (one @ other.T).float().clamp(-1, 1)
    positive = torch.acos(cosine.diagonal())
    same = torch.eye(len(cosine), dtype=torch.bool, device=cosine.device)
    others = cosine.masked_fill(same, -1.0)
    negative = torch.acos(torch.maximum(others.amax(0), others.amax(1)))
    angles = {"positive": positive, "negative": negative, "relative": positive - negative}
    return {
        name: np.histogram(values.cpu().numpy(), BINS, LARGEST[name])[0].tolist() for name, values in angles.items()
    }


def _first_two_rows(desc: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second row of every label that has two.

    Shape:
        desc (P, D), label (P,) -> (G, D), (G, D).
    """
    again = label[1:] == label[:-1]
    begins = again & ~torch.cat([again.new_zeros(1), again[:-1]])
    return desc[:-1][begins], desc[1:][begins]

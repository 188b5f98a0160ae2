"""Diagnostics of a run for reports: distances and angles of a batch."""

import math

import numpy as np
import torch
from torch import Tensor

BINS = 60  # of a histogram


@torch.no_grad()
def monitor(desc: Tensor, raw: Tensor, label: Tensor | None = None) -> dict[str, Tensor]:
    """Mean distances of two views and of the nearest other point, mean and variance of the norms.

    Shape:
        desc (P, K, D) unit length, raw (P, K, D), label (P,) where rows of one point follow each other, K = 1 then
        -> 0-dim each, on their device.
    """
    norm = raw.float().norm(dim=-1)
    cosine, same = _cosines(desc, label)
    distance = (2 - 2 * cosine).clamp(min=0).sqrt()
    return {
        "distance/positive": distance.diagonal().mean(),
        "distance/negative": distance.masked_fill(same, torch.inf).amin(1).mean(),
        "norm/mean": norm.mean(),
        "norm/variance": norm.var(),
    }


@torch.no_grad()
def angle_histograms(desc: Tensor, label: Tensor | None = None) -> dict[str, list[int]]:
    """Histograms of angles between the two views of a point, and from these to the nearest other point.

    Shape:
        desc (P, K, D) unit length, label as of `monitor` -> BINS counts each, over equal parts of 0 to pi.
    """
    cosine, same = _cosines(desc, label)
    cosine = cosine.float().clamp(-1, 1)
    positive = torch.acos(cosine.diagonal())
    others = cosine.masked_fill(same, -1.0)
    negative = torch.acos(torch.maximum(others.amax(0), others.amax(1)))
    angles = {"positive": positive, "negative": negative}
    return {name: np.histogram(each.cpu().numpy(), BINS, (0, math.pi))[0].tolist() for name, each in angles.items()}


def _cosines(desc: Tensor, label: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return cosines of two views of each point, (G, G), and the diagonal of the pairs; with labels, of the first two rows."""
    if label is None:
        one, other = desc[:, :2].unbind(1)
    else:
        again = label[1:] == label[:-1]
        begins = again & ~torch.cat([again.new_zeros(1), again[:-1]])
        one, other = desc[:-1, 0][begins], desc[1:, 0][begins]
    return one @ other.T, torch.eye(len(one), dtype=torch.bool, device=desc.device)

"""Numbers about a batch that tell a person how training goes; computed when a line is logged, not at every step."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def monitor(desc: Tensor, raw: Tensor) -> dict[str, Tensor]:
    """Mean distance of the first two views, mean distance of the nearest other point, mean and variance of the norms.

    Shape:
        desc (P, K, D) unit length, raw (P, K, D) -> 0-dim each, on their device.
    """
    norm = raw.float().norm(dim=-1)
    cosine = desc[:, 0] @ desc[:, 1].T
    distance = (2 - 2 * cosine).clamp(min=0).sqrt()
    other = distance.masked_fill(torch.eye(len(distance), dtype=torch.bool, device=distance.device), torch.inf)
    return {
        "distance/positive": distance.diagonal().mean(),
        "distance/negative": other.amin(1).mean(),
        "norm/mean": norm.mean(),
        "norm/variance": norm.var(),
    }

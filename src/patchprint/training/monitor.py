"""Numbers about a batch that tell a person how training goes; computed when a line is logged, not at every step."""

from __future__ import annotations

import torch
from torch import Tensor


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


def _first_two_rows(desc: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second row of every label that has two.

    Shape:
        desc (P, D), label (P,) -> (G, D), (G, D).
    """
    again = label[1:] == label[:-1]
    begins = again & ~torch.cat([again.new_zeros(1), again[:-1]])
    return desc[:-1][begins], desc[1:][begins]

"""Losses of deep metric learning on embeddings with class labels, as SEC was tried with them.

They stand here because pytorch-metric-learning's versions differ (its semi-hard triplets are chosen otherwise) or are
missing a part. Each normalises the embeddings itself and returns a 0-dim loss, as that library's losses do; a batch with
no pair to learn from gives 0. Labels are int64, shapes stay fixed, nothing is read back to the host.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from patchprint.losses.base import at_least_float32, require_at_least
from patchprint.losses.distances import COSINE_LIMIT, squared_l2


class SemiHardTriplet(nn.Module):
    """Mean over ordered positive pairs (a, p) of ``max(0, margin + d_ap - d_an)``, squared distances.

    n is the nearest negative that is farther than p, or, where there is none, the farthest negative.
    """

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        self.margin = require_at_least("margin", margin, 0.0)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """
        Shape:
            embeddings (N, D), labels (N,) int64 -> 0-dim.
        """
        with torch.autocast(embeddings.device.type, enabled=False):
            unit = _unit(embeddings)
            distance = squared_l2(unit, unit)
            positive, negative = _relations(labels)
            ascending = distance.masked_fill(~negative, torch.inf).sort(dim=1).values
            place = torch.searchsorted(ascending.detach(), distance.detach(), right=True)
            beyond = ascending.gather(1, place.clamp_max(len(labels) - 1))
            farthest = distance.masked_fill(~negative, -torch.inf).max(1, keepdim=True).values
            chosen = torch.where(torch.isfinite(beyond), beyond, farthest)
            counted = positive & negative.any(1, keepdim=True)
            # Entries that do not count are replaced before the subtraction, so that no infinity meets a gradient.
            gap = distance.masked_fill(~counted, 0.0) - chosen.masked_fill(~counted, 0.0)
            return _mean(torch.relu(self.margin + gap), counted)


class NormalizedNPair(nn.Module):
    """Cross-entropy of each class's first sample against the second samples of all classes, logits ``scale * cos``."""

    def __init__(self, scale: float = 25.0) -> None:
        super().__init__()
        self.scale = require_at_least("scale", scale, 0.0)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """
        Shape:
            embeddings (N, D), labels (N,) int64 -> 0-dim.
        """
        with torch.autocast(embeddings.device.type, enabled=False):
            unit = _unit(embeddings)
            same = labels[:, None] == labels[None]
            place = same.tril(-1).sum(1)  # how many samples of the class come before this one
            is_second = place == 1
            pair = same & (place == 0)[:, None] & is_second[None]
            anchor = pair.any(1)
            # Rows without a positive are kept finite by their own diagonal and left out of the mean.
            own = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
            column = torch.where(anchor[:, None], is_second[None], own)
            logits = (self.scale * (unit @ unit.T)).masked_fill(~column, -torch.inf)
            correct = logits.masked_fill(~pair, 0.0).sum(1)
            return _mean(logits.logsumexp(1) - correct, anchor)


class TupletMargin(nn.Module):
    """Mean over ordered positive pairs of ``log(1 + sum_n e^(scale (cos t_n - cos(t_p - slack))))`` plus the intra-pair
    variance ``variance_weight * [mean relu((1 - e) mean(s_p) - s_p)^2 + mean relu(s_n - (1 + e) mean(s_n))^2]``.

    ``slack`` is in radians; e is ``tolerance``; s_p and s_n are the cosines of positive and negative pairs.
    """

    def __init__(
        self, slack: float = 0.1, scale: float = 64.0, variance_weight: float = 0.5, tolerance: float = 0.01
    ) -> None:
        super().__init__()
        self.slack = require_at_least("slack", slack, 0.0)
        self.scale = require_at_least("scale", scale, 0.0)
        self.variance_weight = require_at_least("variance_weight", variance_weight, 0.0)
        self.tolerance = require_at_least("tolerance", tolerance, 0.0)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """
        Shape:
            embeddings (N, D), labels (N,) int64 -> 0-dim.
        """
        with torch.autocast(embeddings.device.type, enabled=False):
            unit = _unit(embeddings)
            cosine = (unit @ unit.T).clamp(-COSINE_LIMIT, COSINE_LIMIT)
            positive, negative = _relations(labels)
            eased = torch.cos(torch.acos(cosine) - self.slack)
            # A row without negatives sums to nothing; a very low logit stands for the empty sum.
            crowd = (self.scale * cosine).masked_fill(~negative, -1e4).logsumexp(1, keepdim=True)
            tuplets = _mean(softplus(crowd - self.scale * eased), positive & negative.any(1, keepdim=True))
            low = torch.relu((1.0 - self.tolerance) * _mean(cosine, positive) - cosine).square()
            high = torch.relu(cosine - (1.0 + self.tolerance) * _mean(cosine, negative)).square()
            return tuplets + self.variance_weight * (_mean(low, positive) + _mean(high, negative))


def _unit(embeddings: Tensor) -> Tensor:
    return normalize(at_least_float32(embeddings), dim=1)


def _relations(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Positive and negative ordered pairs, each (N, N) bool."""
    same = labels[:, None] == labels[None]
    return same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device), ~same


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the masked values, 0 where the mask is empty."""
    return (values * mask).sum() / mask.sum().clamp_min(1)

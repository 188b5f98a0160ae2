"""Recall at K: the part of the queries with an image of their class among the K nearest.

The papers count a query as found when fewer than K gallery items are *strictly* more similar than its best positive. Where
items tie with it, that is the most favorable order: a network that collapsed to one vector would find everything. So the
default is the exact expectation over all orders of ties, which is chance for the collapsed network. The released script hides
the query from itself by a similarity of zero, under which it is still a positive; here it is no neighbor at all.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.ops.distances import Descriptors, distance_matrix

Ties = Literal["expectation", "strict"]

_CHUNK_CELLS = 1 << 24  # distances held at a time


class Recall(NamedTuple):
    """Recall by K, in [0, 1], over the ``queries`` that have a positive, NaN if none has; ``alone`` counts the others."""

    at: dict[int, float]
    queries: int
    alone: int


def recall_at(
    descriptors: Descriptors,
    labels: Tensor,
    ks: Sequence[int] = (1, 2, 4, 8),
    gallery: Descriptors | None = None,
    gallery_labels: Tensor | None = None,
    ties: Ties = "expectation",
) -> Recall:
    """R@K of queries against a gallery, or of all images against all others.

    Args:
        descriptors: unit vectors or packed bits; distances are computed where they are.
        labels: the class of each query.
        gallery: what is searched; without it the queries search each other, each but itself.
        ties: what counts among items that are exactly as near as the best positive; ``strict`` is the papers' formula.

    Shape:
        descriptors (N, D), labels (N,), gallery (M, D), gallery_labels (M,).
    """
    if (gallery is None) != (gallery_labels is None):
        raise UserError("a gallery needs its labels, and labels of a gallery need the gallery")
    if not ks or min(ks) < 1:
        raise UserError(f"recall is taken at one or more K of at least 1, not at {list(ks)}")
    queries = torch.as_tensor(descriptors)
    base = queries if gallery is None else torch.as_tensor(gallery)
    query_labels = torch.as_tensor(labels).to(queries.device)
    base_labels = query_labels if gallery_labels is None else torch.as_tensor(gallery_labels).to(queries.device)
    for vectors, classes in ((queries, query_labels), (base, base_labels)):
        if vectors.ndim != 2 or classes.shape != vectors.shape[:1]:
            shapes = f"descriptors {tuple(vectors.shape)} and labels {tuple(classes.shape)}"
            raise UserError(f"{shapes} must be (N, D) and (N,)")
        if vectors.is_floating_point() and not torch.isfinite(vectors).all():
            raise UserError("some descriptors are not finite numbers: has the training diverged?")
    rows = max(1, _CHUNK_CELLS // max(1, len(base)))
    found = torch.zeros(len(ks), dtype=torch.float64, device=queries.device)
    asked = 0
    for start in range(0, len(queries), rows):
        here = slice(start, start + rows)
        distance = distance_matrix(queries[here], base)
        positive = query_labels[here, None] == base_labels
        if gallery is None:
            own = torch.arange(len(distance), device=distance.device)
            distance[own, start + own] = torch.inf
            positive[own, start + own] = False
        has_positive = positive.any(1)
        distance, positive = distance[has_positive], positive[has_positive]
        best = distance.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
        equal = distance == best
        ahead, tied, right = (distance < best).sum(1), equal.sum(1), (equal & positive).sum(1)
        found += torch.stack([_chance(k, ahead, tied, right, ties).sum() for k in ks])
        asked += len(ahead)
    values = (found / asked).tolist() if asked else [float("nan")] * len(ks)
    return Recall(dict(zip(ks, values, strict=True)), asked, len(queries) - asked)


def _chance(k: int, ahead: Tensor, tied: Tensor, right: Tensor, ties: Ties) -> Tensor:
    """Chance (N,) that a positive is among the first k: ``ahead`` are nearer than the best, ``tied`` equal, ``right`` of them.

    All ``k - ahead`` places that equals can fill go to wrong ones with the chance ``prod_i (wrong - i) / (tied - i)``.
    """
    left = k - ahead
    if ties == "strict":
        return (left > 0).double()
    missed = torch.ones_like(ahead, dtype=torch.float64)
    for i in range(k):
        wrong = (tied - right - i).clamp(min=0).double() / (tied - i).clamp(min=1)
        missed *= torch.where(left > i, wrong, 1.0)
    return 1.0 - missed

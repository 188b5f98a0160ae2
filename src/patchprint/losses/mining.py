"""Distance tables of a batch and hard-negative mining in them: dense, without sorting, in float32.

A batch holds P points in two views, anchor and positive (P, D). Negatives *across* of point i are ``d(a_i, p_j)`` and, with
the anchor swap, ``d(a_j, p_i)`` (HardNet); *everywhere* adds ``d(a_i, a_j)`` and ``d(p_i, p_j)`` (SOSNet, HyNet, SDGMNet).

A candidate that is too close is more likely a repeated structure or a wrong label than a hard negative: the *guard* skips
it (0.008 in L2 distance, 0.6 rad in angle). Where nothing is left, the negative is ``NOTHING_LEFT`` away, out of reach of
every margin, and has no gradient. Gradients flow through the dense matrix (one matrix product back), which is
deterministic; gathering single pairs would need atomic additions. Where several processes hold the same batch, each computes
its own ``rows`` of the tables, R of P (``patchprint.common.distributed``).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from patchprint.common.distributed import ALL_ROWS, Rows
from patchprint.losses.loss import Pairs

ROOT_EPSILON = 1e-6  # under every root, so that the slope of a distance stays finite at zero (HardNet's constant)
COSINE_LIMIT = 1.0 - 1e-5  # SDGMNet's clamp; beyond it acos has no usable slope
L2_GUARD = 0.008
ANGLE_GUARD = 0.6
NOTHING_LEFT = 10.0
SMALLEST_L2 = math.sqrt(ROOT_EPSILON)  # what ``l2`` gives for equal vectors
SMALLEST_ANGLE = math.acos(COSINE_LIMIT)


def root(squared: Tensor) -> Tensor:
    """L2 distance from its square, any shape."""
    return torch.sqrt(squared + ROOT_EPSILON)


def squared_l2(x: Tensor, y: Tensor) -> Tensor:
    """All squared distances, never negative: (N, D), (M, D) -> (N, M)."""
    sizes = x.square().sum(1)[:, None] + y.square().sum(1)[None]
    return (sizes - 2.0 * (x @ y.T)).clamp_min(0.0)


def l2(x: Tensor, y: Tensor) -> Tensor:
    """Distance of row i of x to row i of y: (N, D), (N, D) -> (N,)."""
    return root((x - y).square().sum(1))


def angle(cosine: Tensor) -> Tensor:
    """Angle in radians of a cosine, any shape; slope zero where the cosine is within 1e-5 of -1 or 1."""
    return torch.acos(cosine.clamp(-COSINE_LIMIT, COSINE_LIMIT))


def same_point(num_points: int, device: torch.device, rows: Rows = ALL_ROWS) -> Tensor:
    """True where both entries belong to one point, (R, P) bool."""
    same = torch.zeros(num_points // rows.ranks, num_points, dtype=torch.bool, device=device)
    rows.diagonal(same).fill_(True)
    return same


def both_ways(
    compare: Callable[[Tensor, Tensor], Tensor], anchor: Tensor, positive: Tensor, rows: Rows
) -> tuple[Tensor, Tensor]:
    """Table of ``compare`` for all anchors and positives (P, D), by rows of anchors and by rows of positives, (R, P) each."""
    if rows.are_all:
        table = compare(anchor, positive)
        return table, table.T
    anchor, positive = rows.shared(torch.stack([anchor, positive])).unbind()
    return compare(rows.own(anchor), positive), compare(rows.own(positive), anchor)


def squared_across(pairs: Pairs, guard: float) -> tuple[Tensor, Tensor]:
    """Squared distances from anchors to positives, and back, (R, P) each, with all that is no negative moved out of reach."""
    rows, ignore = pairs.rows, pairs.ignore_across

    def negatives(squared: Tensor, ignored: Tensor | None) -> Tensor:
        excluded = same_point(squared.shape[1], squared.device, rows) | (squared < guard**2 - ROOT_EPSILON)
        if ignored is not None:
            excluded = excluded | rows.own(ignored)
        return squared.masked_fill(excluded, NOTHING_LEFT**2)

    there, back = both_ways(squared_l2, pairs.anchor, pairs.positive, rows)
    there = negatives(there, ignore)
    return there, there.T if rows.are_all else negatives(back, None if ignore is None else ignore.T)


def hardest_across(pairs: Pairs, guard: float = L2_GUARD, swap: bool = True) -> Tensor:
    """L2 distance to the hardest negative of each point among positives (and anchors, with the anchor swap), (P,)."""
    there, back = squared_across(pairs, guard)
    hardest = there.min(1).values
    if swap:
        # Of the same table, since the gradient of a transposed one is slower by half.
        of_positives = there.min(0).values if pairs.rows.are_all else back.min(1).values
        hardest = torch.minimum(hardest, of_positives)
    return pairs.rows.gathered(root(hardest))


def hardest_everywhere(pairs: Pairs, guard: float = L2_GUARD) -> Tensor:
    """L2 distance to the hardest negative of each point among all four blocks, (P,); the guard looks at single candidates."""
    rows = pairs.rows
    both = rows.shared(torch.cat([pairs.anchor, pairs.positive]))
    squared = squared_l2(rows.own(both, stacked=2), both)
    excluded = same_point(len(pairs.anchor), both.device, rows).repeat(2, 2) | (squared <= guard**2 - ROOT_EPSILON)
    if pairs.ignore is not None:
        excluded = excluded | rows.own(pairs.ignore, stacked=2)
    nearest = squared.masked_fill(excluded, NOTHING_LEFT**2).min(1).values
    return rows.gathered(root(torch.minimum(*nearest.chunk(2))))


def hardest_cosine(
    anchor: Tensor, positive: Tensor, limit: Tensor | float, ignore: Tensor | None = None, rows: Rows = ALL_ROWS
) -> Tensor:
    """Largest cosine of each point to another point among all four blocks.

    The guard looks at pairs of points: if any of the four cosines of points i and j reaches ``limit``, j is no negative of
    i (SDGMNet). Where nothing is left the cosine is -1. (P, D), (P, D), ``ignore`` (2P, 2P) with anchors first -> (P,).
    """
    count = len(anchor)
    both = rows.shared(torch.cat([anchor, positive]))
    cosine = rows.own(both, stacked=2) @ both.T
    if ignore is not None:
        cosine = cosine.masked_fill(rows.own(ignore, stacked=2), -1.0)
    closest = cosine.view(2, -1, 2, count).amax((0, 2))
    excluded = same_point(count, anchor.device, rows) | (closest >= limit)
    return rows.gathered(closest.masked_fill(excluded, -1.0).max(1).values)

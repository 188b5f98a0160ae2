"""Diagnostics of a run for reports: distances and angles of a batch, hardest held-out pairs."""

import math

import numpy as np
import torch
from torch import Tensor

from patchprint.data import preview
from patchprint.networks.network import PatchNetwork
from patchprint.ops.distances import nearest, pair_distances
from patchprint.training.held_out import HeldOutPoints

BINS = 60  # of a histogram
HARDEST = "hardest.npz"  # in a run folder
LARGEST_SIDE = 64  # pixels of a patch or image that is shown
COUNT = 12  # pairs of each kind


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


def hardest_pairs(judge: HeldOutPoints, network: PatchNetwork, count: int = COUNT) -> dict[str, np.ndarray]:
    """Return views of one held-out point that lie farthest apart (missed) and of two points that lie nearest (confused).

    Shape:
        -> missed, confused (C, 2, S, S) uint8 and missed_distance, confused_distance (C,), hardest first, C at most ``count``.
    """
    first, second = judge.describe(network)
    own = pair_distances(first, second)
    missed = np.argsort(-own, kind="stable")[:count]
    distance, index = nearest(first, second, k=2, exact=True)
    is_own = index[:, 0] == torch.arange(len(index))
    other, away = torch.where(is_own, index[:, 1], index[:, 0]), torch.where(is_own, distance[:, 1], distance[:, 0])
    confused = torch.argsort(away, stable=True)[:count]
    confused = confused[other[confused] >= 0]
    return {
        "missed": _patches(judge, torch.from_numpy(missed), torch.from_numpy(missed), network.input_size),
        "missed_distance": own[missed],
        "confused": _patches(judge, confused, other[confused], network.input_size),
        "confused_distance": away[confused].numpy(),
    }


def _patches(judge: HeldOutPoints, first: Tensor, second: Tensor, size: int) -> np.ndarray:
    """Return first views beside second views, contrast stretched, (C,), (C,) -> (C, 2, S, S) uint8."""
    sides = []
    for view, rows in enumerate((first, second)):
        chosen = rows.to(judge.points.device)
        views = judge.views[chosen, view]
        sides.append(judge.source.sample(judge.points[chosen], views[:, None], min(size, LARGEST_SIDE))[:, 0, 0])
    return (preview.stretch_contrast(torch.stack(sides, 1)) * 255).round().to(torch.uint8).cpu().numpy()

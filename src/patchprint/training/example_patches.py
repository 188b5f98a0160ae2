"""What a person looks at beside numbers: patches that a run learns from, and pairs that its last weights get wrong."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.data import preview
from patchprint.data.patch_source import PatchSource
from patchprint.networks.network import PatchNetwork
from patchprint.ops.distances import nearest, pair_distances
from patchprint.training.held_out import HeldOutPoints

PATCHES, HARDEST = "patches.npz", "hardest.npz"  # files of a run folder
LARGEST_SIDE = 64  # pixels of a patch or image that is shown
POINTS, VIEWS = 24, 6  # of what is learned from
COUNT = 12  # pairs of each kind


def learned_patches(source: PatchSource, size: int) -> dict[str, np.ndarray]:
    """Some points of ``source`` in several views; nothing where none has two.

    Shape:
        -> patches (P, V, S, S, C) uint8, C 1 or 3; valid (P, V) bool: which of the views there are.
    """
    try:
        patches, valid = preview.some_points(source, POINTS, VIEWS, min(size, LARGEST_SIDE))
    except UserError:
        return {}
    return {"patches": patches.cpu().numpy(), "valid": valid.cpu().numpy()}


def hardest_pairs(judge: HeldOutPoints, network: PatchNetwork, count: int = COUNT) -> dict[str, np.ndarray]:
    """Of held-out points, views of one point that lie farthest apart (missed) and of two points that lie nearest (confused).

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
    """First views of some points beside second views of others, their contrast stretched, (C,), (C,) -> (C, 2, S, S) uint8."""
    sides = []
    for view, rows in enumerate((first, second)):
        chosen = rows.to(judge.points.device)
        views = judge.views[chosen, view]
        sides.append(judge.source.sample(judge.points[chosen], views[:, None], min(size, LARGEST_SIDE))[:, 0, 0])
    return (preview.stretch_contrast(torch.stack(sides, 1)) * 255).round().to(torch.uint8).cpu().numpy()

"""Labeled pairs of patches, half of them matching, to measure FPR95.

A store built from the original UBC files brings their list; from any other source pairs are drawn with a seed: a matching
pair is two views of one point, a non-matching pair two points of one scene.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.data.patch_source import PatchSource
from patchprint.data.patch_store import PatchStore
from patchprint.ops.distances import pair_distances

OFFICIAL_PAIRS = "m50_100000_100000_0"


@dataclass(frozen=True, eq=False)
class PairList:
    """Distinct patches and which of them are compared.

    Shape:
        points (U,), views (U,): the distinct patches; index (L, 2) into them; is_match (L,) bool.
    """

    points: Tensor
    views: Tensor
    index: Tensor
    is_match: np.ndarray

    def distances(self, descriptors: Tensor) -> np.ndarray:
        """Return the distance of each pair: descriptors (U, D) floats or packed bits -> (L,) float64."""
        index = self.index.to(descriptors.device)
        return pair_distances(descriptors[index[:, 0]], descriptors[index[:, 1]])


def pairs_of(source: PatchSource, count: int, seed: int) -> tuple[PairList, str]:
    """Return the pairs of a source and their origin: "official" where a whole store has that list, else ``count`` "drawn"."""
    if (
        isinstance(source, PatchStore)
        and source.num_points == source.facts["points"]
        and OFFICIAL_PAIRS in source.facts["pairs"]
    ):
        return official_pairs(source), "official"
    return draw_pairs(source, count, seed), "drawn"


def draw_pairs(source: PatchSource, count: int, seed: int) -> PairList:
    """Sample matching and non-matching pairs, as many of each; a function of the seed alone."""
    num_views, scene = source.num_views.cpu(), source.scene.cpu()
    has_other = torch.bincount(scene)[scene] >= 2 if len(scene) else torch.ones_like(scene, dtype=torch.bool)
    usable = ((num_views >= 2) & has_other).nonzero()[:, 0]
    half = count // 2
    if len(usable) < 2 or half == 0:
        raise UserError(f"{len(usable)} points have two views and another point in their scene; pairs need at least 2")
    key = rng.fold_in(rng.key(seed), 0x0BC)
    chosen = usable[rng.integers(rng.fold_in(key, 1), len(usable), (half,))]
    first = rng.integers(rng.fold_in(key, 2), num_views[chosen], (half,))
    second = (first + 1 + rng.integers(rng.fold_in(key, 3), num_views[chosen] - 1, (half,))) % num_views[chosen]
    left = usable[rng.integers(rng.fold_in(key, 4), len(usable), (half,))]
    right = _another_of_the_scene(rng.fold_in(key, 5), left, scene)
    points = torch.cat([torch.stack([chosen, chosen], 1), torch.stack([left, right], 1)])
    drawn = [rng.integers(rng.fold_in(key, k), num_views[p], (half,)) for k, p in ((6, left), (7, right))]
    views = torch.cat([torch.stack([first, second], 1), torch.stack(drawn, 1)])
    return _distinct(points, views, np.arange(2 * half) < half)


def official_pairs(store: PatchStore) -> PairList:
    """Return the pair list of the original data set."""
    rows = torch.from_numpy(store.pairs(OFFICIAL_PAIRS))
    points, views = store.all_views()
    patch = store.observation(points, views[:, None])[:, 0].cpu()
    points, views = points.cpu(), views.cpu()
    place = torch.empty(int(patch.max()) + 1, dtype=torch.int64)
    place[patch] = torch.arange(len(patch))
    wanted = place[rows[:, :2]]
    return _distinct(points[wanted], views[wanted], rows[:, 2].numpy().astype(bool))


def _another_of_the_scene(key: Tensor, points: Tensor, scene: Tensor) -> Tensor:
    """Draw for each point another one of its scene, uniformly, (N,) -> (N,)."""
    by_scene = torch.argsort(scene, stable=True)
    place = torch.empty_like(by_scene)
    place[by_scene] = torch.arange(len(scene))
    size = torch.bincount(scene)
    start = (torch.cumsum(size, 0) - size)[scene[points]]
    number = size[scene[points]]
    step = 1 + rng.integers(key, number - 1, (len(points),))
    return by_scene[start + (place[points] - start + step) % number]


def _distinct(points: Tensor, views: Tensor, is_match: np.ndarray) -> PairList:
    """Return pairs (L, 2) of points and views as an index into distinct patches."""
    width = int(views.max()) + 1
    codes, index = torch.unique(points * width + views, return_inverse=True)
    return PairList(codes // width, codes % width, index, is_match)

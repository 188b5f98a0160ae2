"""Validation: measure descriptors on held-out data, to choose the best weights.

Held-out points give FPR95 and confusion, whole images 1 - R@1 (`create`); where no point has two views, similarities are
compared with the teacher's. Published test sets (`create_for_test_sets`) give FPR95 on official pairs, averaged over sets.
"""

import functools
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from patchprint.common import rng
from patchprint.data import open_source
from patchprint.data.batches import two_views
from patchprint.data.image_store import ImageStore
from patchprint.data.patch_pairs import pairs_of
from patchprint.data.patch_source import PatchSource
from patchprint.losses.auxiliary import similarity_difference
from patchprint.metrics.recall import recall_at
from patchprint.metrics.verification import fpr95
from patchprint.networks.network import PatchNetwork
from patchprint.ops.distances import chance_of_same_index, pair_distances
from patchprint.training.teacher import Teacher

_CHUNK = 1024
_TITLES = {
    "fpr95": "FPR95",
    "confusion": "confusion",
    "missed": "1 - R@1",
    "disagreement": "disagreement with the teacher",
    "lost": "right matches lost at precision 0.9",
    "unrepeated": "keypoints not found again",
    "turned": "angles off by 20 degrees",
}


def measure_title(number: str) -> str:
    """Return the title of a number for readers, and of its set where there are several."""
    name, _, of = number.partition("/")
    return f"{_TITLES.get(name, name)} on {of}" if of else _TITLES.get(name, name)


Measured = dict[str, float]  # lower is better; of several sets the mean, and NAME/SET for each


def score(measured: Measured) -> float:
    """Return the number that weights are chosen by: the sum of what was measured."""
    return sum(value for name, value in measured.items() if "/" not in name)


class Judge(Protocol):
    """Measures a network on data that it does not learn from."""

    def __len__(self) -> int: ...

    def measure(self, network: PatchNetwork) -> Measured: ...


def create(source: PatchSource, most: int, seed: int, teacher: Teacher | None = None) -> Judge:
    """Create the judge of a source with up to ``most`` patches or images; patches without pairs need a ``teacher``."""
    if isinstance(source, ImageStore):
        return HeldOutImages(source, most, seed)
    points = HeldOutPoints(source, most // 2, seed)
    return points if len(points) or teacher is None else HeldOutPatches(source, most, seed, teacher)


def create_for_test_sets(
    folders: Sequence[str], device: torch.device, patch_scale: float, most: int, seed: int
) -> Judge:
    """Create the judge of published test sets: of each store its part "test", or all of it where it has none.

    Patches are judged on the official pairs of a store, or on ``most`` drawn ones; images on up to ``most`` of them.
    """
    judges: dict[str, Judge] = {}
    for folder in folders:
        whole = open_source(folder, device, patch_scale=patch_scale)
        test = whole.split("test")
        source = test if test.num_points else whole
        name = Path(folder).name if Path(folder).name not in judges else str(folder)
        judge = HeldOutImages if isinstance(source, ImageStore) else VerifiedPairs
        judges[name] = judge(source, most, seed)  # type: ignore[arg-type]
    return SeveralSets(judges)


class SeveralSets:
    """A judge for each set, by its name."""

    def __init__(self, judges: dict[str, Judge]) -> None:
        self.judges = judges

    def __len__(self) -> int:
        return sum(map(len, self.judges.values()))

    def measure(self, network: PatchNetwork) -> Measured:
        """Measure on each set; the mean of each number under its name, and that of each set under ``name/set``."""
        sets = {name: judge.measure(network) for name, judge in self.judges.items()}
        names = next(iter(sets.values()))
        means = {name: statistics.fmean(values[name] for values in sets.values()) for name in names}
        return means | {f"{name}/{of}": values[name] for of, values in sets.items() for name in names}


class _SingleViews:
    """Patches or images of a source: points (N,) and views (N,) on its device."""

    def __init__(self, source: PatchSource, points: Tensor, views: Tensor) -> None:
        self.source = source
        self.points, self.views = points.to(source.device), views.to(source.device)

    def __len__(self) -> int:
        return len(self.points)

    def describe(self, describe: Callable[[Tensor], Tensor], size: int) -> Tensor:
        """Call ``describe`` on all of them in chunks, at ``size`` pixels: (N, D)."""
        parts = zip(self.points.split(_CHUNK), self.views.split(_CHUNK), strict=True)
        return torch.cat([describe(self.source.sample(p, v[:, None], size)[:, 0]) for p, v in parts])


class VerifiedPairs(_SingleViews):
    """A list of pairs, the official one of the source where it has one; each distinct patch is described once."""

    def __init__(self, source: PatchSource, count: int, seed: int) -> None:
        self.pairs, _ = pairs_of(source, count, seed)
        super().__init__(source, self.pairs.points, self.pairs.views)

    def __len__(self) -> int:
        return len(self.pairs.index)

    def measure(self, network: PatchNetwork) -> Measured:
        """FPR95 in [0, 1], ties counted against the network."""
        distances = self.pairs.distances(self.describe(network.describe, network.input_size))
        return {"fpr95": float(fpr95(distances, self.pairs.is_match))}


class HeldOutPoints:
    """Up to ``most`` points of a source in two views each, fixed by the seed.

    Matching pairs are the two views of each point; the others pair the first view with the second of another point.

    Shape:
        points (N,), views (N, 2) on the source's device; N may be 0.
    """

    def __init__(self, source: PatchSource, most: int, seed: int) -> None:
        self.source = source
        usable = torch.nonzero(source.num_views >= 2)[:, 0]
        if len(usable) < 2:
            usable = usable[:0]
        key = _key(source, seed)
        self.points = usable[rng.permutation(rng.fold_in(key, 1), len(usable))[:most]]
        self.views = two_views(rng.fold_in(key, 2), source.num_views[self.points])

    def __len__(self) -> int:
        return len(self.points)

    def measure(self, network: PatchNetwork) -> Measured:
        """FPR95 in [0, 1] over random negatives, and confusion: the part of the points to which, between two of their views,
        another point is nearer than their own, which still tells descriptors apart when FPR95 is down to single pairs."""
        parts = []
        for points, views in zip(self.points.split(_CHUNK), self.views.split(_CHUNK), strict=True):
            patches = self.source.sample(points, views, network.input_size)
            parts.append(network.describe(patches.transpose(0, 1).flatten(0, 1)).cpu().chunk(2))
        first, second = (torch.cat(side) for side in zip(*parts, strict=True))
        distance = np.concatenate([pair_distances(first, second), pair_distances(first, second.roll(1, 0))])
        _, right = chance_of_same_index(first, second)
        is_match = np.arange(2 * len(self)) < len(self)
        return {"fpr95": float(fpr95(distance, is_match)), "confusion": 1.0 - float(right.mean())}


class HeldOutPatches(_SingleViews):
    """The first views of up to ``most`` points, fixed by the seed, and their similarities by the teacher."""

    def __init__(self, source: PatchSource, most: int, seed: int, teacher: Teacher) -> None:
        points = rng.permutation(_key(source, seed), source.num_points)[:most]
        super().__init__(source, points, torch.zeros_like(points))
        self.teacher = teacher

    def __len__(self) -> int:
        return len(self.points) if len(self.points) > 1 else 0

    @functools.cached_property
    def taught(self) -> Tensor:
        """Descriptors of the teacher, (N, T)."""
        parts = zip(self.points.split(_CHUNK), self.views.split(_CHUNK), strict=True)
        sizes = self.teacher.sizes
        return torch.cat([self.teacher([self.source.sample(p, v[:, None], s)[:, 0] for s in sizes]) for p, v in parts])

    def measure(self, network: PatchNetwork) -> Measured:
        """Root mean square difference of similarities, of all pairs of each block (`losses.auxiliary.BLOCK`)."""
        network = network.in_evaluation()  # the head, too: it gives bits only then
        learned = self.describe(lambda patches: network.head(network.raw(patches)), network.input_size)
        counts = torch.ones(len(learned), device=learned.device)
        return {"disagreement": float(similarity_difference(learned, self.taught.float(), counts).sqrt())}


class HeldOutImages(_SingleViews):
    """Up to ``most`` images, fixed by the seed, each searched among the others."""

    def __init__(self, source: ImageStore, most: int, seed: int) -> None:
        points, views = source.all_views()
        chosen = rng.permutation(_key(source, seed), len(points))[:most]
        super().__init__(source, points[chosen], views[chosen])
        self.labels = source.label[self.points]

    def measure(self, network: PatchNetwork) -> Measured:
        """The part of the images whose nearest other image is of another class, 1 - R@1."""
        found = self.describe(network.describe, network.input_size)
        return {"missed": 1.0 - recall_at(found, self.labels, (1,)).at[1]}


def _key(source: PatchSource, seed: int) -> Tensor:
    return rng.fold_in(rng.key(seed, device=source.device), 0x7A11D)

"""Which points and views make the batch of a step.

The batch of step t is a pure function of (seed, t, rank), computed on the source's device without host synchronisation, so
that a resumed run sees exactly the batches it would have seen and the whole step fits into a CUDA graph. A point never
occurs twice in a batch. With several processes each takes its part of the same global batch: the parts of rank 0, 1, ...
one after the other are the batch that a single process would see.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from patchprint import rng
from patchprint.errors import UserError
from patchprint.patches.order import grid_of, shuffled
from patchprint.patches.source import PatchSource

# Keys of a step: one for this module, and one below it for each thing that is chosen.
_BATCHES = 0xBA7C4
_POINTS, _VIEWS, _SEQUENCES = 1, 2, 3


@dataclass(frozen=True, eq=False)
class PatchBatch:
    """P points in K views each.

    Shape:
        points (P,) int64, views (P, K) int64; valid (P, K) bool or None where all are; ignore (Q, Q) bool or None with
        Q = K times the points of the *global* batch, since losses see the batch of all processes: pairs of patches
        (row = point * K + view) that count neither as positive nor as negative.
    """

    points: Tensor
    views: Tensor
    valid: Tensor | None = None
    ignore: Tensor | None = None


@dataclass(frozen=True)
class Share:
    """Which part of the global batch this process takes."""

    rank: int = 0
    world: int = 1

    def of(self, values: Tensor) -> Tensor:
        size = len(values) // self.world
        return values[self.rank * size : (self.rank + 1) * size]


class _Batcher:
    """Eligible points and the random order they are taken in."""

    def __init__(
        self,
        source: PatchSource,
        num_points: int,
        min_views: int,
        seed: int,
        rank: int,
        world: int,
        places: int | None = None,
    ) -> None:
        """``places``: how many things there are to choose from, where they are not points."""
        if num_points % world:
            raise UserError(f"a batch of {num_points} points cannot be shared evenly by {world} processes")
        self.seed, self.share, self.num_points = seed, Share(rank, world), num_points
        enough = source.num_views >= min_views
        self.eligible = enough.nonzero()[:, 0] if places is None else torch.arange(places, device=source.device)
        self.grid = grid_of(len(self.eligible))
        if self.reach < num_points:
            raise UserError(
                f"a batch of {num_points} points needs as many with at least {min_views} views, "
                f"but the source has only {self.reach}"
            )
        self.num_views = source.num_views

    @property
    def reach(self) -> int:
        """How many points one epoch's order holds."""
        return self.grid[0] * self.grid[1]

    @property
    def steps_per_epoch(self) -> int:
        """Batches in which (nearly) every point occurs once; the rest of an epoch that fills no batch is left out."""
        return self.reach // self.num_points

    def _next_points(self, step: Tensor) -> Tensor:
        """Distinct points of the global batch, (num_points,): the next slice of this epoch's order."""
        epoch = step // self.steps_per_epoch
        place = (step % self.steps_per_epoch) * self.num_points + torch.arange(self.num_points, device=step.device)
        order_key = self._key(epoch, _POINTS)
        return self.eligible[shuffled(order_key, place, len(self.eligible), self.grid)]

    def _key(self, step: Tensor, purpose: int) -> Tensor:
        return rng.fold_in(rng.fold_in(rng.key(self.seed, step), _BATCHES), purpose)


class PairBatcher(_Batcher):
    """Pairs of distinct random points, two different views of each (HardNet)."""

    def __init__(self, source: PatchSource, num_points: int, seed: int = 0, rank: int = 0, world: int = 1) -> None:
        super().__init__(source, num_points, min_views=2, seed=seed, rank=rank, world=world)

    def batch(self, step: Tensor) -> PatchBatch:
        points = self._next_points(step)
        views = two_views(self._key(step, _VIEWS), self.num_views[points])
        return PatchBatch(self.share.of(points), self.share.of(views))


class NeighborBatcher(_Batcher):
    """Pairs as of ``PairBatcher``, in runs of ``run`` points whose first views lie in the same photo.

    Hard negatives are then what a matcher meets: other places of the same picture. An epoch takes every run once, and each
    epoch cuts the points into runs at other places.
    """

    def __init__(
        self,
        source: PatchSource,
        num_points: int,
        run: int = 128,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(source, num_points, min_views=2, seed=seed, rank=rank, world=world)
        image = source.first_image
        if image is None:
            raise UserError("runs of neighbours need to know their photos: give a store that was built from photos")
        if run < 1 or num_points % run:
            raise UserError(f"runs of {run} neighbours do not make up a batch of {num_points} points")
        self.run = run
        self.eligible = self.eligible[torch.argsort(image[self.eligible], stable=True)]
        self.runs = grid_of(len(self.eligible) // run)
        if self.steps_per_epoch < 1:
            raise UserError(
                f"a batch of {num_points} points needs {num_points // run} runs of {run} neighbours, "
                f"but the source has only {math.prod(self.runs)}; give shorter runs or more data"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Batches in which (nearly) every run occurs once."""
        return math.prod(self.runs) // (self.num_points // self.run)

    def batch(self, step: Tensor) -> PatchBatch:
        per_batch, count = self.num_points // self.run, len(self.eligible)
        epoch = step // self.steps_per_epoch
        order_key = self._key(epoch, _POINTS)
        place = (step % self.steps_per_epoch) * per_batch + torch.arange(per_batch, device=step.device)
        first = shuffled(order_key, place, count // self.run, self.runs) * self.run
        start = rng.integers(rng.fold_in(order_key, 1), count, ())
        within = torch.arange(self.run, device=step.device)
        points = self.eligible[torch.remainder(start + (first[:, None] + within).flatten(), count)]
        views = two_views(self._key(step, _VIEWS), self.num_views[points])
        return PatchBatch(self.share.of(points), self.share.of(views))


class ProgressiveBatcher(_Batcher):
    """L2-Net: the first half of a batch goes through all points in sequence, the second is random among the rest.

    ``sequential`` (p1) of the ``num_points`` points are taken in sequence; the paper uses 64 of 128.
    """

    def __init__(
        self,
        source: PatchSource,
        num_points: int,
        sequential: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(source, num_points, min_views=2, seed=seed, rank=rank, world=world)
        self.sequential = num_points // 2 if sequential is None else sequential
        if not 0 < self.sequential <= num_points:
            raise UserError(f"sequential must be between 1 and {num_points}, got {self.sequential}")
        self.rest = len(self.eligible) - self.sequential
        if grid_of(self.rest)[0] * grid_of(self.rest)[1] < num_points - self.sequential:
            raise UserError(f"a batch of {num_points} points needs a larger source than {len(self.eligible)} points")

    @property
    def steps_per_epoch(self) -> int:
        """Batches until every point was taken in sequence once."""
        return -(-len(self.eligible) // self.sequential)

    def batch(self, step: Tensor) -> PatchBatch:
        count = len(self.eligible)
        first = (step * self.sequential) % count
        in_sequence = first + torch.arange(self.sequential, device=step.device)
        place = torch.arange(self.num_points - self.sequential, device=step.device)
        order_key = self._key(step, _POINTS)
        chance = first + self.sequential + shuffled(order_key, place, max(1, self.rest), grid_of(max(1, self.rest)))
        points = self.eligible[torch.cat([in_sequence, chance]) % count]
        views = two_views(self._key(step, _VIEWS), self.num_views[points])
        return PatchBatch(self.share.of(points), self.share.of(views))


class ClassBatcher(_Batcher):
    """Metric learning: ``num_points`` distinct classes, ``num_views`` different images of each.

    A class with fewer images is there with all that it has; ``valid`` says which places hold one.
    """

    def __init__(
        self, source: PatchSource, num_points: int, num_views: int, seed: int = 0, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(source, num_points, min_views=2, seed=seed, rank=rank, world=world)
        self.wanted, self.most = num_views, int(source.num_views.max())
        self.is_ragged = bool((source.num_views[self.eligible] < num_views).any())

    def batch(self, step: Tensor) -> PatchBatch:
        points = self._next_points(step)
        views, valid = several_views(self._key(step, _VIEWS), self.num_views[points], self.wanted, self.most)
        return PatchBatch(self.share.of(points), self.share.of(views), self.share.of(valid) if self.is_ragged else None)


class InstanceBatcher(_Batcher):
    """SimCLR: distinct images, whatever their class, each ``num_views`` times, for augmentation to tell apart."""

    def __init__(
        self, source: PatchSource, num_points: int, num_views: int, seed: int = 0, rank: int = 0, world: int = 1
    ) -> None:
        self.point = torch.repeat_interleave(torch.arange(source.num_points, device=source.device), source.num_views)
        self.first = torch.cumsum(source.num_views, 0) - source.num_views
        super().__init__(source, num_points, min_views=1, seed=seed, rank=rank, world=world, places=len(self.point))
        self.wanted = num_views

    def batch(self, step: Tensor) -> PatchBatch:
        images = self._next_points(step)
        points = self.point[images]
        views = (images - self.first[points])[:, None].expand(-1, self.wanted)
        return PatchBatch(self.share.of(points), self.share.of(views))


class GroupBatcher(_Batcher):
    """DOAP: whole groups (all views of a point) until the batch holds ``num_patches`` patches.

    Shapes are fixed: room is made for the largest number of groups and for ``max_views`` views (the largest group where it
    is not given); ``valid`` says which of them hold a patch. Points with fewer than ``min_views`` are left out. With
    ``ignore_same_scene`` different points of one scene are ignored: DOAP on HPatches without label mining.
    """

    def __init__(
        self,
        source: PatchSource,
        num_patches: int,
        max_views: int | None = None,
        min_views: int = 2,
        ignore_same_scene: bool = False,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        views = source.num_views[source.num_views >= min_views]
        if len(views) == 0:
            raise UserError(f"groups need points with at least {min_views} views, and the source has none")
        self.max_views = int(views.max()) if max_views is None else max_views
        smallest = min(int(views.min()), self.max_views)
        room = min(num_patches // smallest, math.prod(grid_of(len(views)))) // world * world
        super().__init__(source, max(world, room), min_views=min_views, seed=seed, rank=rank, world=world)
        self.num_patches, self.scene, self.ignore_same_scene = num_patches, source.scene, ignore_same_scene
        self.most_views = int(views.max())

    def batch(self, step: Tensor) -> PatchBatch:
        points = self._next_points(step)
        count = self.num_views[points].clamp(max=self.max_views)
        fits = torch.cumsum(count, 0) <= self.num_patches
        views, valid = several_views(self._key(step, _VIEWS), self.num_views[points], self.max_views, self.most_views)
        valid = valid & fits[:, None]
        ignore = None
        if self.ignore_same_scene:
            ignore = _same_scene_other_point(self.scene[points], points, self.max_views)
        return PatchBatch(self.share.of(points), self.share.of(views), self.share.of(valid), ignore)


class SequencePairBatcher(_Batcher):
    """DOAP with label mining: equally many groups of two sequences; an epoch goes through all pairs of sequences.

    Patches of different points of one sequence are negatives only where the mined labels of the source call them
    distractors; the others are ignored. DOAP's 1024 patches are 2 sequences x 32 groups x 16 views.
    """

    def __init__(
        self,
        source: PatchSource,
        groups_per_sequence: int,
        max_views: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(source, 2 * groups_per_sequence, min_views=2, seed=seed, rank=rank, world=world)
        self.mined, self.observation = source.mined, source.observation
        if self.mined is None:
            raise UserError(
                "the source has no mined labels; build it with patchprint data build hpatches --mine-labels"
            )
        self.groups, self.max_views, self.scene = groups_per_sequence, max_views, source.scene
        self.most_views = int(source.num_views.max())
        order = torch.argsort(self.scene[self.eligible], stable=True)
        self.eligible = self.eligible[order]
        self.sequence, size = torch.unique_consecutive(self.scene[self.eligible], return_counts=True)
        grids = [grid_of(int(n)) for n in size]
        enough = torch.tensor([a * b >= groups_per_sequence for a, b in grids], device=size.device)
        if int(enough.sum()) < 2:
            raise UserError(f"label mining needs two sequences with at least {groups_per_sequence} points each")
        self.size, self.first = size, torch.cumsum(size, 0) - size
        self.rows, self.columns = (torch.tensor(side, device=size.device) for side in zip(*grids, strict=True))
        usable = enough.nonzero()[:, 0]
        self.sequence_pairs = usable[torch.triu_indices(len(usable), len(usable), offset=1, device=usable.device)].T

    @property
    def steps_per_epoch(self) -> int:
        """All pairs of sequences."""
        return len(self.sequence_pairs)

    def batch(self, step: Tensor) -> PatchBatch:
        count = len(self.sequence_pairs)
        pair = self.sequence_pairs[rng.permutation(self._key(step // count, _SEQUENCES), count)[step % count]]
        place = torch.arange(self.groups, device=step.device).expand(2, -1)
        order_key = self._key(step, _POINTS)
        size, first, rows, columns = (t[pair][:, None] for t in (self.size, self.first, self.rows, self.columns))
        points = self.eligible[(first + shuffled(order_key, place, size, (rows, columns))).reshape(-1)]
        views, valid = several_views(self._key(step, _VIEWS), self.num_views[points], self.max_views, self.most_views)
        scene = self.scene[points]
        ignore = _same_scene_other_point(scene, points, self.max_views)
        ignore = ignore & ~self._distractors(scene, points, views)
        return PatchBatch(self.share.of(points), self.share.of(views), self.share.of(valid), ignore)

    def _distractors(self, scene: Tensor, points: Tensor, views: Tensor) -> Tensor:
        assert self.mined is not None
        row = self.observation(points, views).reshape(-1)
        return self.mined.are_distractors(scene.repeat_interleave(self.max_views, output_size=row.shape[0]), row)


def two_views(key: Tensor, num_views: Tensor) -> Tensor:
    """Two different views of each point, (P, 2)."""
    first = rng.integers(rng.fold_in(key, 0), num_views, tuple(num_views.shape))
    second = rng.integers(rng.fold_in(key, 1), num_views - 1, tuple(num_views.shape))
    return torch.stack([first, second + (second >= first)], 1)


def several_views(key: Tensor, num_views: Tensor, wanted: int, most: int) -> tuple[Tensor, Tensor]:
    """Up to ``wanted`` different views of each point in random order, (P, wanted), and which of them exist.

    ``most`` is the largest number of views of any point of the source. A place without a view repeats view 0.
    """
    columns = max(wanted, most)
    view = torch.arange(columns, device=num_views.device)
    exists = view[None, :] < num_views[:, None]
    rank = torch.where(exists, rng.bits(key, (len(num_views), columns)), 1 << 32)
    views = torch.argsort(rank * columns + view, dim=1)[:, :wanted]
    valid = views < num_views[:, None]
    return torch.where(valid, views, 0), valid


def _same_scene_other_point(scene: Tensor, points: Tensor, num_views: int) -> Tensor:
    """Pairs of patches of different points of one scene, (P * K, P * K) bool."""
    pairs = (scene[:, None] == scene[None, :]) & (points[:, None] != points[None, :])
    count = len(points)
    return pairs[:, None, :, None].expand(count, num_views, count, num_views).reshape(count * num_views, -1)

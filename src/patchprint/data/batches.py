"""Batchers: which points and views form the batch of a step; `group_batches` has those of whole groups.

The batch of step t is a pure function of (seed, t, rank), computed on the source's device without host synchronization, so
that runs resume exactly and a step fits into a CUDA graph. A point never occurs twice in a batch. The parts of rank 0, 1,
... one after the other are the batch that a single process would see.
"""

import math
from dataclasses import dataclass
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.data.patch_source import PatchSource

# Keys of a step: one for all batches, and one below it for each thing that is chosen.
_BATCHES = 0xBA7C4
POINTS, VIEWS, SCENES = 1, 2, 3
_FEISTEL_ROUNDS = 6


@dataclass(frozen=True, eq=False)
class PatchBatch:
    """A batch of P points with K views each.

    Shape:
        points (P,) int64, views (P, K) int64; valid (P, K) bool or None where all are; ignore (Q, Q) bool or None with
        Q = K times the points of the *global* batch: pairs of patches (row = point * K + view) that count neither as
        positive nor as negative. label (P,) int64 below P of the global batch, or None: rows with equal labels are patches
        of one point; without labels each row is a point of its own.
    """

    points: Tensor
    views: Tensor
    valid: Tensor | None = None
    ignore: Tensor | None = None
    label: Tensor | None = None


class Place(TypedDict, total=False):
    """Seed of a run, and which of several processes this is."""

    seed: int
    rank: int
    world: int


class StepBatcher:
    """Base of the batchers: one random key per step and purpose, and the share of this rank.

    ``views_of_point`` are those that a batch takes: 1 of groups, whose patches stand for themselves, or 2; 0: any number.
    """

    views_of_point = 1

    def __init__(self, source: PatchSource, rows: int, seed: int = 0, rank: int = 0, world: int = 1) -> None:
        if rows % world:
            raise UserError(f"a batch of {rows} cannot be shared evenly by {world} processes")
        self.seed, self.rank, self.world, self.num_views = seed, rank, world, source.num_views

    def batch(self, step: Tensor) -> PatchBatch:
        """Return the batch of a step (0-dim); a subclass implements it."""
        raise NotImplementedError

    def share(self, values: Tensor) -> Tensor:
        """Return this rank's part of values of the global batch."""
        size = len(values) // self.world
        return values[self.rank * size : (self.rank + 1) * size]

    def _key(self, step: Tensor, purpose: int) -> Tensor:
        return rng.fold_in(rng.fold_in(rng.key(self.seed, step), _BATCHES), purpose)


class PairBatcher(StepBatcher):
    """Pairs of distinct random points, two different views of each (HardNet); each epoch has a permutation of its own.

    With ``min_views`` 1 also points that are seen once, that view twice, for augmentation to tell apart.
    """

    views_of_point = 2

    def __init__(self, source: PatchSource, num_points: int, min_views: int = 2, **place: Unpack[Place]) -> None:
        super().__init__(source, num_points, **place)
        self.num_points = num_points
        self.eligible = self._eligible(source, min_views)
        self.grid = grid_of(len(self.eligible))
        self.reach = math.prod(self.grid)  # points in the permutation of an epoch
        if self.reach < num_points:
            raise UserError(f"a batch of {num_points} points needs as many with {min_views} views, not {self.reach}")

    @property
    def steps_per_epoch(self) -> int:
        """Batches in which (nearly) every point occurs once; the rest of an epoch that fills no batch is left out."""
        return self.reach // self.num_points

    def batch(self, step: Tensor) -> PatchBatch:
        points = self._next_points(step)
        views = two_views(self._key(step, VIEWS), self.num_views[points])
        return PatchBatch(self.share(points), self.share(views))

    def _eligible(self, source: PatchSource, min_views: int) -> Tensor:
        """Return the numbers of what may be chosen, (N,)."""
        return (source.num_views >= min_views).nonzero()[:, 0]

    def _next_points(self, step: Tensor) -> Tensor:
        """Return the distinct points of the global batch, (num_points,): the next slice of the epoch's permutation."""
        epoch, number = step // self.steps_per_epoch, step % self.steps_per_epoch
        place = number * self.num_points + torch.arange(self.num_points, device=step.device)
        return self.eligible[permuted(self._key(epoch, POINTS), place, len(self.eligible), self.grid)]


class NeighborBatcher(PairBatcher):
    """Pairs as of ``PairBatcher``, in runs of ``run`` points whose first views lie in the same image.

    Hard negatives are then other places of the same image, as for a matcher. Each epoch cuts the points into other runs.
    """

    def __init__(
        self, source: PatchSource, num_points: int, run: int = 128, min_views: int = 2, **place: Unpack[Place]
    ) -> None:
        super().__init__(source, num_points, min_views, **place)
        image = source.first_image
        if image is None:
            raise UserError("runs of neighbors need to know their images: give a store that was built from images")
        if run < 1 or num_points % run:
            raise UserError(f"runs of {run} neighbors do not make up a batch of {num_points} points")
        self.run = run
        self.eligible = self.eligible[torch.argsort(image[self.eligible], stable=True)]
        self.runs = grid_of(len(self.eligible) // run)
        if self.steps_per_epoch < 1:
            raise UserError(
                f"a batch of {num_points} points needs {num_points // run} runs of {run} neighbors, "
                f"but the source has only {math.prod(self.runs)}; give shorter runs or more data"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Batches in which (nearly) every run occurs once."""
        return math.prod(self.runs) // (self.num_points // self.run)

    def _next_points(self, step: Tensor) -> Tensor:
        per_batch, count = self.num_points // self.run, len(self.eligible)
        epoch = step // self.steps_per_epoch
        order_key = self._key(epoch, POINTS)
        place = (step % self.steps_per_epoch) * per_batch + torch.arange(per_batch, device=step.device)
        first = permuted(order_key, place, count // self.run, self.runs) * self.run
        start = rng.integers(rng.fold_in(order_key, 1), count, ())
        within = torch.arange(self.run, device=step.device)
        return self.eligible[torch.remainder(start + (first[:, None] + within).flatten(), count)]


class ProgressiveBatcher(PairBatcher):
    """L2-Net: the first half of a batch goes through all points in sequence, the second is random among the rest.

    ``sequential`` (p1) of the ``num_points`` points are taken in sequence; the paper uses 64 of 128.
    """

    def __init__(
        self, source: PatchSource, num_points: int, sequential: int | None = None, **place: Unpack[Place]
    ) -> None:
        super().__init__(source, num_points, **place)
        self.sequential = num_points // 2 if sequential is None else sequential
        if not 0 < self.sequential <= num_points:
            raise UserError(f"sequential must be between 1 and {num_points}, got {self.sequential}")
        self.rest = max(1, len(self.eligible) - self.sequential)
        self.grid = grid_of(self.rest)
        if math.prod(self.grid) < num_points - self.sequential:
            raise UserError(f"a batch of {num_points} points needs a larger source than {len(self.eligible)} points")

    @property
    def steps_per_epoch(self) -> int:
        """Batches until every point was taken in sequence once."""
        return -(-len(self.eligible) // self.sequential)

    def _next_points(self, step: Tensor) -> Tensor:
        first = step * self.sequential
        place = torch.arange(self.num_points, device=step.device)
        behind = self.sequential + permuted(self._key(step, POINTS), place[: -self.sequential], self.rest, self.grid)
        return self.eligible[(first + torch.cat([place[: self.sequential], behind])) % len(self.eligible)]


class ClassBatcher(PairBatcher):
    """Metric learning: ``num_points`` distinct classes, ``num_views`` different images of each.

    A class with fewer images is there with all that it has; ``valid`` says which places hold one.
    """

    views_of_point = 0

    def __init__(self, source: PatchSource, num_points: int, num_views: int, **place: Unpack[Place]) -> None:
        super().__init__(source, num_points, **place)
        self.wanted, self.most = num_views, int(source.num_views.max())
        self.is_ragged = bool((source.num_views[self.eligible] < num_views).any())

    def batch(self, step: Tensor) -> PatchBatch:
        points = self._next_points(step)
        views, valid = several_views(self._key(step, VIEWS), self.num_views[points], self.wanted, self.most)
        return PatchBatch(self.share(points), self.share(views), self.share(valid) if self.is_ragged else None)


class InstanceBatcher(PairBatcher):
    """SimCLR: distinct images, whatever their class, each ``num_views`` times, for augmentation to tell apart."""

    views_of_point = 0

    def __init__(self, source: PatchSource, num_points: int, num_views: int, **place: Unpack[Place]) -> None:
        self.point, self.view = source.all_views()
        super().__init__(source, num_points, min_views=1, **place)
        self.wanted = num_views

    def batch(self, step: Tensor) -> PatchBatch:
        images = self.share(self._next_points(step))
        return PatchBatch(self.point[images], self.view[images][:, None].expand(-1, self.wanted))

    def _eligible(self, source: PatchSource, min_views: int) -> Tensor:
        return torch.arange(len(self.point), device=source.device)


def two_views(key: Tensor, num_views: Tensor) -> Tensor:
    """Sample two different views of each point, (P, 2); a point with one view gets it twice."""
    first = rng.integers(rng.fold_in(key, 0), num_views, tuple(num_views.shape))
    second = rng.integers(rng.fold_in(key, 1), num_views - 1, tuple(num_views.shape))
    return torch.stack([first, (second + (second >= first)) % num_views], 1)


def several_views(key: Tensor, num_views: Tensor, wanted: int, most: int) -> tuple[Tensor, Tensor]:
    """Sample up to ``wanted`` different views of each point, (P, wanted), and a mask of those that exist.

    ``most`` is the largest number of views of any point of the source. A place without a view repeats view 0.
    """
    columns = max(wanted, most)
    view = torch.arange(columns, device=num_views.device)
    exists = view[None, :] < num_views[:, None]
    rank = torch.where(exists, rng.bits(key, (len(num_views), columns)), 1 << 32)
    views = torch.argsort(rank * columns + view, dim=1)[:, :wanted]
    valid = views < num_views[:, None]
    return torch.where(valid, views, 0), valid


def grid_of(count: int) -> tuple[int, int]:
    """Return sides a, b with a * b <= ``count`` that leave out as little as possible (usually nothing)."""
    root = max(1, math.isqrt(count))
    side = min(range(root, root // 2, -1), key=lambda a: count % a)
    return side, count // side


def permuted(key: Tensor, place: Tensor, count: Tensor | int, grid: tuple[Tensor | int, Tensor | int]) -> Tensor:
    """Return the elements at ``place`` of the permutation of range(count) given by ``key``.

    A Feistel network on the a x b ``grid``: no index is stored. Each round adds a hash of one coordinate to the other and can
    be undone, so the map is one-to-one. A random rotation of the result makes the few numbers beyond a * b, which cannot be
    reached, others for every key. Places must be below a * b.

    Shape:
        place (...) int64 -> (...) int64; ``count`` and ``grid`` may be tensors that broadcast to it.
    """
    a, b = grid
    left, right = place // b, place % b
    for number in range(_FEISTEL_ROUNDS):
        if number % 2 == 0:
            left = torch.remainder(left + rng.fold_in(rng.fold_in(key, number), right), a)
        else:
            right = torch.remainder(right + rng.fold_in(rng.fold_in(key, number), left), b)
    turn = rng.fold_in(key, _FEISTEL_ROUNDS)
    return torch.remainder(left * b + right + turn, count)

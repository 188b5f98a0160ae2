"""Batches of whole groups for DOAP: all views of a point, concatenated into flat rows.

A batch has a fixed number of rows, each one patch, labeled by its group. A last group that does not fit fills the rows that
are left for batch norm's sake, but its patches are not ``valid``: no query takes a cut group for a whole one.
"""

import math
from typing import ClassVar, Unpack, cast

import torch
from torch import Tensor

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.data.batches import POINTS, SCENES, PatchBatch, Place, StepBatcher, grid_of, permuted
from patchprint.data.patch_source import PatchSource


class GroupBatcher(StepBatcher):
    """Fill ``num_patches`` rows with whole groups; each group occurs about once per epoch.

    Points with fewer views than ``min_views`` or more than ``max_views`` are left out. With ``ignore_same_scene`` different
    points of one scene are ignored: HPatches without label mining.
    """

    leading: ClassVar[int] = 0
    """Groups at the start of a batch that come in sequence, not out of the permutation."""

    def __init__(
        self,
        source: PatchSource,
        num_patches: int,
        min_views: int = 2,
        max_views: int | None = None,
        ignore_same_scene: bool = False,
        **place: Unpack[Place],
    ) -> None:
        super().__init__(source, num_patches, **place)
        self.num_patches, self.scene, self.ignore_same_scene = num_patches, source.scene, ignore_same_scene
        self.groups = _groups(source, num_patches, min_views, max_views)
        size = source.num_views[self.groups]
        self.shuffled = len(self.groups) - self.leading
        self.grid = grid_of(self.shuffled)
        self.reach = math.prod(self.grid)
        # So many that they fill the rows, however small they are; and as many as do so on average.
        self.most = _groups_to_fill(num_patches, size)
        self.stride = max(1, int(num_patches / size.double().mean()))
        if self.reach < self.most:
            raise UserError(
                f"the {len(self.groups)} groups of the source are too few for a batch of {num_patches} patches; "
                "give a smaller --batch or more data"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Batches in which (nearly) every group occurs once: some are skipped behind large ones, some taken twice."""
        return max(1, self.reach // self.stride)

    def batch(self, step: Tensor) -> PatchBatch:
        rows = _in_rows(self._points(step), self.num_views, self.num_patches)
        ignore = _same_scene_other_point(self.scene, rows.points) if self.ignore_same_scene else None
        return _shared(rows, ignore, self)

    def _points(self, step: Tensor) -> Tensor:
        """Return the groups of a step in order, (most,)."""
        epoch, number = step // self.steps_per_epoch, step % self.steps_per_epoch
        place = (number * self.stride + torch.arange(self.most, device=step.device)) % self.reach
        return self.groups[permuted(self._key(epoch, POINTS), place, self.shuffled, self.grid)]


class LeadingGroupBatcher(GroupBatcher):
    """DOAP on RomePatches: the k-th batch of an epoch begins with group k, random other groups fill it."""

    leading = 1

    @property
    def steps_per_epoch(self) -> int:
        """Batches until every group came first once."""
        return len(self.groups)

    def _points(self, step: Tensor) -> Tensor:
        place = torch.arange(self.most, device=step.device)
        behind = 1 + permuted(self._key(step, POINTS), place[:-1], self.shuffled, self.grid)
        return self.groups[(step + torch.cat([place[:1], behind])) % len(self.groups)]


class SceneGroupBatcher(GroupBatcher):
    """DOAP on HPatches: random groups, as many of one scene as of any other up to one."""

    def __init__(
        self, source: PatchSource, num_patches: int, ignore_same_scene: bool = True, **place: Unpack[Place]
    ) -> None:
        super().__init__(source, num_patches, ignore_same_scene=ignore_same_scene, **place)
        self.scenes = _Scenes(self.groups, source.scene)
        self.rounds = -(-self.most // len(self.scenes))
        fewest = int(self.scenes.reach.min())
        if fewest < self.rounds:
            raise UserError(
                f"a batch of {num_patches} patches takes {self.rounds} groups of every scene, but one has only {fewest}; "
                "give a smaller --batch"
            )

    def _points(self, step: Tensor) -> Tensor:
        scenes = rng.permutation(self._key(step, SCENES), len(self.scenes))
        return self.scenes.draw(self._key(step, POINTS), scenes, self.rounds).flatten()[: self.most]


class SequencePairBatcher(StepBatcher):
    """DOAP with label mining: whole groups of two sequences, half of the rows for each; an epoch takes all pairs of sequences.

    Patches of different points of one sequence are negatives only where the mined labels of the source call them
    distractors; the others are ignored. DOAP's 1024 patches are 2 sequences x 32 groups x 16 views. Of more ``sequences`` than
    two each batch takes random ones.
    """

    def __init__(self, source: PatchSource, num_patches: int, sequences: int = 2, **place: Unpack[Place]) -> None:
        super().__init__(source, num_patches, **place)
        if source.mined is None:
            raise UserError("the source has no mined labels; run patchprint data build hpatches --mine-labels")
        if sequences < 2 or num_patches % sequences:
            raise UserError(f"{sequences} sequences cannot share a batch of {num_patches} patches; give an even number")
        self.mined, self.observation, self.scene = source.mined, source.observation, source.scene
        self.sequences, self.rows_of_each = sequences, num_patches // sequences
        self.scenes = _Scenes(_groups(source, self.rows_of_each, min_views=2), source.scene)
        sizes = source.num_views[self.scenes.points].split(self.scenes.size.tolist())
        most = torch.tensor([_groups_to_fill(self.rows_of_each, size) for size in sizes], device=source.device)
        self.usable = (most <= self.scenes.reach).nonzero()[:, 0]
        if len(self.usable) < sequences:
            raise UserError(f"label mining needs {sequences} sequences with at least {self.rows_of_each} patches each")
        self.most = int(most[self.usable].max())
        self.sequence_pairs = torch.combinations(self.usable)

    @property
    def steps_per_epoch(self) -> int:
        """All pairs of sequences."""
        return len(self.sequence_pairs)

    def batch(self, step: Tensor) -> PatchBatch:
        points = self.scenes.draw(self._key(step, POINTS), self._sequences(step), self.most)
        shares = [_in_rows(of_sequence, self.num_views, self.rows_of_each) for of_sequence in points.unbind(1)]
        labels = [cast(Tensor, each.label) + number * self.most for number, each in enumerate(shares)]
        rows = PatchBatch(
            torch.cat([each.points for each in shares]),
            torch.cat([each.views for each in shares]),
            torch.cat([cast(Tensor, each.valid) for each in shares]),
            label=torch.cat(labels),
        )
        distractors = self.mined.are_distractors(
            self.scene[rows.points], self.observation(rows.points, rows.views)[:, 0]
        )
        return _shared(rows, _same_scene_other_point(self.scene, rows.points) & ~distractors, self)

    def _sequences(self, step: Tensor) -> Tensor:
        """Return the sequences of a batch, (sequences,)."""
        if self.sequences > 2:
            return self.usable[rng.permutation(self._key(step, SCENES), len(self.usable))[: self.sequences]]
        count = len(self.sequence_pairs)
        number = (step % count)[None]  # an index without dimensions would be read by the host
        return self.sequence_pairs[rng.permutation(self._key(step // count, SCENES), count)[number]][0]


class _Scenes:
    """Points sorted by their scene, S scenes.

    Shape:
        points (N,); size, first, reach (S,): how many points a scene has, where they begin, how many can be drawn at once.
    """

    def __init__(self, points: Tensor, scene: Tensor) -> None:
        self.points = points[torch.argsort(scene[points], stable=True)]
        _, self.size = torch.unique_consecutive(scene[self.points], return_counts=True)
        self.first = torch.cumsum(self.size, 0) - self.size
        self.grid = torch.tensor([grid_of(count) for count in self.size.tolist()], device=points.device).T
        self.reach = self.grid[0] * self.grid[1]

    def __len__(self) -> int:
        return len(self.size)

    def draw(self, key: Tensor, scenes: Tensor, count: int) -> Tensor:
        """Random points of each of some scenes, different ones up to its reach, from where on they repeat.

        Shape:
            key 0-dim, scenes (S',) -> (count, S').
        """
        place = torch.arange(count, device=key.device)[:, None] % self.reach[scenes]
        rows, columns = self.grid[:, scenes]
        return self.points[
            self.first[scenes] + permuted(rng.fold_in(key, scenes), place, self.size[scenes], (rows, columns))
        ]


def _groups(source: PatchSource, rows: int, min_views: int, max_views: int | None = None) -> Tensor:
    """Points whose groups may be taken, (N,); UserError where there are none, or one that would never be whole."""
    wanted = source.num_views >= min_views
    if max_views is not None:
        wanted = wanted & (source.num_views <= max_views)
    groups = wanted.nonzero()[:, 0]
    if len(groups) == 0:
        raise UserError(f"groups need points with at least {min_views} views, and the source has none")
    largest = int(source.num_views[groups].max())
    if largest > rows:
        raise UserError(
            f"the largest group has {largest} patches and does not fit into {rows}; give a larger --batch, "
            f"or leave such groups out by --batcher-options max_views={rows}"
        )
    return groups


def _groups_to_fill(rows: int, size: Tensor) -> int:
    """How many groups surely fill ``rows``, the smallest ones too; more than there are where all of them do not."""
    return int((torch.cumsum(size.sort().values, 0) < rows).sum()) + 1


def _in_rows(points: Tensor, num_views: Tensor, rows: int) -> PatchBatch:
    """Return all views of each point one after the other, each a row of one view, as far as there are rows.

    Shape:
        points (G,) with at least ``rows`` views in all, num_views of all points (N,) -> P = rows, K = 1.
    """
    size = num_views[points]
    end = torch.cumsum(size, 0)
    row = torch.arange(rows, device=points.device)
    group = torch.searchsorted(end, row, right=True)
    view, is_whole = row - (end - size)[group], end[group] <= rows
    return PatchBatch(points[group], view[:, None], is_whole[:, None], label=group)


def _shared(batch: PatchBatch, ignore: Tensor | None, batcher: StepBatcher) -> PatchBatch:
    """Return the rows of this rank; ``ignore`` is of all of them."""
    mine = {name: batcher.share(getattr(batch, name)) for name in ("points", "views", "valid", "label")}
    return PatchBatch(**mine, ignore=ignore)


def _same_scene_other_point(scene: Tensor, points: Tensor) -> Tensor:
    """Pairs of rows that show different points of one scene: scene of all points (N,), points (P,) -> (P, P) bool."""
    of_row = scene[points]
    return (of_row[:, None] == of_row[None, :]) & (points[:, None] != points[None, :])

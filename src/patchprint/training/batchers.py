"""Batchers by name, made from the settings of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from torch import Tensor

from patchprint.common import distributed
from patchprint.common.errors import UserError
from patchprint.common.registry import Registry, check_kinds
from patchprint.data import batches, group_batches
from patchprint.data.patch_source import PatchSource
from patchprint.training.config import TrainConfig


class Batcher(Protocol):
    def batch(self, step: Tensor) -> batches.PatchBatch: ...


class BatcherKind(NamedTuple):
    """A batcher, the arguments of its that ``batcher_options`` may hold, and the views of a point it takes (0: from two on)."""

    make: Callable[..., Batcher]
    options: tuple[str, ...] = ()
    views: int = 1


BATCHERS: Registry[BatcherKind] = Registry(
    "batcher",
    {
        "pairs": BatcherKind(batches.PairBatcher, ("min_views",), 2),
        "neighbors": BatcherKind(batches.NeighborBatcher, ("run", "min_views"), 2),
        "progressive": BatcherKind(batches.ProgressiveBatcher, ("sequential",), 2),
        "groups": BatcherKind(group_batches.GroupBatcher, ("min_views", "max_views")),
        "leading-groups": BatcherKind(group_batches.LeadingGroupBatcher),
        "scene-groups": BatcherKind(
            partial(group_batches.SceneGroupBatcher, ignore_same_scene=True), ("ignore_same_scene",)
        ),
        "sequence-pairs": BatcherKind(group_batches.SequencePairBatcher),
        "classes": BatcherKind(batches.ClassBatcher, views=0),
        "instances": BatcherKind(batches.InstanceBatcher, views=0),
    },
)


def create(config: TrainConfig, source: PatchSource) -> Batcher:
    """Create the batcher of ``config`` for this rank's share.

    Raises:
        UserError: it does not take so many views, or the source has too few points for one batch.
    """
    kind = BATCHERS[config.batcher]
    check_kinds(f"batcher {config.batcher!r}", config.batcher_options, kind.make)
    _check_views(config, kind.views)
    _check_size(config, source, kind.views)
    views = () if kind.views else (config.views,)
    place = {"seed": config.seed, "rank": distributed.rank(), "world": distributed.world_size()}
    return kind.make(source, config.batch, *views, **config.batcher_options, **place)


def _check_views(config: TrainConfig, takes: int) -> None:
    name, views = config.batcher, config.views
    if takes == 1 != views:
        raise UserError(
            f"--batcher {name} takes whole groups, each patch for itself: give --views 1, not {views}, and the patches of a "
            f"batch as --batch; --batcher classes takes {views} patches of each point"
        )
    if views == 1 != takes:
        raise UserError(
            f"--views is 1, but --batcher {name} needs 2 views of a point to have a positive; groups takes all"
        )
    if takes == 2 != views:
        raise UserError(
            f"--batcher {name} takes 2 views of a point, not --views {views}; --batcher classes takes any number"
        )


def _check_size(config: TrainConfig, source: PatchSource, views: int) -> None:
    enough = config.batcher_options.get("min_views", 2)
    several = source.num_views[source.num_views >= enough]
    if views == 1:
        usable, what = int(several.sum()), "patches of points with two views"
    elif config.batcher == "instances":
        usable, what = int(source.num_views.sum()), "patches" if source.channels == 1 else "images"
    else:
        usable = len(several)
        what = "points with two views" if source.channels == 1 else "classes with two images"
        what = what if enough > 1 else "points"
    if usable < config.batch:
        least = 2 if views == 2 else 1
        fits = max(least, 1 << max(usable, 1).bit_length() - 1)
        raise UserError(
            f"the data have {usable} {what} for training, fewer than --batch {config.batch}; "
            + (f"give --batch {fits} or more data" if usable >= 2 else "give more data")
        )

"""From the settings of a run to the object that chooses points and views."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from patchprint.common import distributed
from patchprint.common.errors import UserError
from patchprint.common.registry import Registry, check_kinds
from patchprint.data import batches, group_batches
from patchprint.data.patch_source import PatchSource
from patchprint.training.config import TrainConfig


class Batcher(Protocol):
    def batch(self, step: Tensor) -> batches.PatchBatch: ...


Place = dict[str, Any]  # seed, rank and world


def pairs(source: PatchSource, config: TrainConfig, place: Place, *, min_views: int = 2) -> Batcher:
    return batches.PairBatcher(source, config.batch, min_views, **place)


def neighbors(source: PatchSource, config: TrainConfig, place: Place, *, run: int = 128, min_views: int = 2) -> Batcher:
    return batches.NeighborBatcher(source, config.batch, run, min_views, **place)


def progressive(source: PatchSource, config: TrainConfig, place: Place, *, sequential: int | None = None) -> Batcher:
    return batches.ProgressiveBatcher(source, config.batch, sequential, **place)


def groups(
    source: PatchSource, config: TrainConfig, place: Place, *, min_views: int = 2, max_views: int | None = None
) -> Batcher:
    return group_batches.GroupBatcher(source, config.batch, min_views, max_views, **place)


def leading_groups(source: PatchSource, config: TrainConfig, place: Place) -> Batcher:
    return group_batches.LeadingGroupBatcher(source, config.batch, **place)


def scene_groups(source: PatchSource, config: TrainConfig, place: Place, *, ignore_same_scene: bool = True) -> Batcher:
    return group_batches.SceneGroupBatcher(source, config.batch, ignore_same_scene, **place)


def classes(source: PatchSource, config: TrainConfig, place: Place) -> Batcher:
    return batches.ClassBatcher(source, config.batch, config.views, **place)


def instances(source: PatchSource, config: TrainConfig, place: Place) -> Batcher:
    return batches.InstanceBatcher(source, config.batch, config.views, **place)


def sequence_pairs(source: PatchSource, config: TrainConfig, place: Place) -> Batcher:
    return group_batches.SequencePairBatcher(source, config.batch, **place)


# Keyword-only arguments are what --batcher-options may set.
BATCHERS: Registry[Callable[..., Batcher]] = Registry(
    "batcher",
    {
        "pairs": pairs,
        "neighbors": neighbors,
        "progressive": progressive,
        "groups": groups,
        "leading-groups": leading_groups,
        "scene-groups": scene_groups,
        "sequence-pairs": sequence_pairs,
        "classes": classes,
        "instances": instances,
    },
)

# Views of a point that these batchers take; the others take any number from two on.
VIEWS = {
    **dict.fromkeys(("pairs", "neighbors", "progressive"), 2),
    **dict.fromkeys(("groups", "leading-groups", "scene-groups", "sequence-pairs"), 1),
}


def option_names(name: str) -> list[str]:
    """What ``batcher_options`` may hold for a batcher."""
    parameters = inspect.signature(BATCHERS[name]).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def create(config: TrainConfig, source: PatchSource) -> Batcher:
    """The batcher of ``config`` for this rank's share; UserError where it does not take so many views, or the source has too
    few points for one batch."""
    check_kinds(f"batcher {config.batcher!r}", config.batcher_options, BATCHERS[config.batcher])
    _check_views(config)
    _check_size(config, source)
    place = {"seed": config.seed, "rank": distributed.rank(), "world": distributed.world_size()}
    return BATCHERS[config.batcher](source, config, place, **config.batcher_options)


def _check_views(config: TrainConfig) -> None:
    name, views = config.batcher, config.views
    takes = VIEWS.get(name, max(views, 2))
    if views == takes:
        return
    if takes == 1:
        raise UserError(
            f"--batcher {name} takes whole groups, each patch for itself: give --views 1, not {views}, and the patches of a "
            f"batch as --batch; --batcher classes takes {views} patches of each point"
        )
    if views == 1:
        raise UserError(
            f"--views is 1, but --batcher {name} needs 2 views of a point to have a positive; groups takes all"
        )
    raise UserError(
        f"--batcher {name} takes 2 views of a point, not --views {views}; --batcher classes takes any number"
    )


def _check_size(config: TrainConfig, source: PatchSource) -> None:
    enough = config.batcher_options.get("min_views", 2)
    several = source.num_views[source.num_views >= enough]
    if VIEWS.get(config.batcher) == 1:
        usable, what = int(several.sum()), "patches of points with two views"
    elif config.batcher == "instances":
        usable, what = int(source.num_views.sum()), "patches" if source.channels == 1 else "images"
    else:
        usable = len(several)
        what = "points with two views" if source.channels == 1 else "classes with two images"
        what = what if enough > 1 else "points"
    if usable < config.batch:
        least = 2 if VIEWS.get(config.batcher) == 2 else 1
        fits = max(least, 1 << max(usable, 1).bit_length() - 1)
        raise UserError(
            f"the data have {usable} {what} for training, fewer than --batch {config.batch}; "
            + (f"give --batch {fits} or more data" if usable >= 2 else "give more data")
        )

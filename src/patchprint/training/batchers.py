"""From the settings of a run to the object that chooses points and views."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from patchprint.errors import UserError
from patchprint.patches import batches
from patchprint.patches.source import PatchSource
from patchprint.registry import Registry
from patchprint.training import distributed
from patchprint.training.config import TrainConfig


class Batcher(Protocol):
    def batch(self, step: Tensor) -> batches.PatchBatch: ...


Place = dict[str, Any]  # seed, rank and world


def pairs(source: PatchSource, config: TrainConfig, place: Place) -> Batcher:
    return batches.PairBatcher(source, config.batch, **place)


def neighbors(source: PatchSource, config: TrainConfig, place: Place, *, run: int = 128) -> Batcher:
    return batches.NeighborBatcher(source, config.batch, run, **place)


def progressive(source: PatchSource, config: TrainConfig, place: Place, *, sequential: int | None = None) -> Batcher:
    return batches.ProgressiveBatcher(source, config.batch, sequential, **place)


def groups(
    source: PatchSource, config: TrainConfig, place: Place, *, min_views: int = 2, ignore_same_scene: bool = False
) -> Batcher:
    patches = config.batch * config.views
    return batches.GroupBatcher(source, patches, config.views, min_views, ignore_same_scene, **place)


def classes(source: PatchSource, config: TrainConfig, place: Place) -> Batcher:
    return batches.ClassBatcher(source, config.batch, config.views, **place)


def instances(source: PatchSource, config: TrainConfig, place: Place) -> Batcher:
    return batches.InstanceBatcher(source, config.batch, config.views, **place)


def sequence_pairs(source: PatchSource, config: TrainConfig, place: Place) -> Batcher:
    return batches.SequencePairBatcher(source, config.batch // 2, max_views=config.views, **place)


# Keyword-only arguments are what --batcher-options may set.
BATCHERS: Registry[Callable[..., Batcher]] = Registry(
    "batcher",
    {
        "pairs": pairs,
        "neighbors": neighbors,
        "progressive": progressive,
        "groups": groups,
        "sequence-pairs": sequence_pairs,
        "classes": classes,
        "instances": instances,
    },
)


def option_names(name: str) -> list[str]:
    """What ``batcher_options`` may hold for a batcher."""
    parameters = inspect.signature(BATCHERS[name]).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def create(config: TrainConfig, source: PatchSource) -> Batcher:
    """The batcher of ``config`` for this rank's share; UserError where the source has too few points for one batch."""
    least = 2 if config.batcher in ("pairs", "neighbors", "progressive") else 1
    if config.batcher == "instances":
        usable, what = int(source.num_views.sum()), "images"
    else:
        usable = int((source.num_views >= 2).sum())
        what = "points with two views" if source.channels == 1 else "classes with two images"
    if usable < config.batch:
        fits = max(least, 1 << max(usable, 1).bit_length() - 1)
        raise UserError(
            f"the data have {usable} {what} for training, fewer than --batch {config.batch}; "
            + (f"give --batch {fits} or more data" if usable >= 2 else "give more data")
        )
    place = {"seed": config.seed, "rank": distributed.rank(), "world": distributed.world_size()}
    return BATCHERS[config.batcher](source, config, place, **config.batcher_options)

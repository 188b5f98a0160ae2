"""From the settings of a run to the object that chooses points and views."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from patchprint.errors import UserError
from patchprint.patches import batches
from patchprint.patches.source import PatchSource
from patchprint.training import distributed
from patchprint.training.config import TrainConfig


class Batcher(Protocol):
    def batch(self, step: Tensor) -> batches.PatchBatch: ...


def create(config: TrainConfig, source: PatchSource) -> Batcher:
    """The batcher of ``config`` for this rank's share; ValueError where the source has too few points for one batch."""
    least = 2 if config.batcher in ("pairs", "neighbors", "progressive") else 1
    usable = int((source.num_views >= 2).sum())
    if usable < config.batch:
        fits = max(least, 1 << max(usable, 1).bit_length() - 1)
        raise UserError(
            f"the data have {usable} points with two views for training, fewer than --batch {config.batch}; "
            + (f"give --batch {fits} or more data" if usable >= 2 else "give more data")
        )
    place: dict[str, Any] = {"seed": config.seed, "rank": distributed.rank(), "world": distributed.world_size()}
    if config.batcher == "pairs":
        return batches.PairBatcher(source, config.batch, **place)
    if config.batcher == "neighbors":
        return batches.NeighborBatcher(source, config.batch, **config.batcher_options, **place)
    if config.batcher == "progressive":
        return batches.ProgressiveBatcher(source, config.batch, **place)
    if config.batcher == "groups":
        return batches.GroupBatcher(
            source, config.batch * config.views, max_views=config.views, **config.batcher_options, **place
        )
    return batches.SequencePairBatcher(source, config.batch // 2, max_views=config.views, **place)

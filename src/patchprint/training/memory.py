"""Find the largest batch that fits after the GPU ran out of memory."""

from __future__ import annotations

import dataclasses
import gc

import torch

from patchprint.data.patch_source import PatchSource
from patchprint.training import assembly
from patchprint.training.config import TrainConfig
from patchprint.training.step import TrainStep


def largest_batch(config: TrainConfig, source: PatchSource) -> int | None:
    """Return the largest half, quarter, ... of the batch whose first step fits, or None."""
    batch = config.batch // 2
    while batch >= 2:
        if _fits(dataclasses.replace(config, batch=batch, acceleration="eager"), source):
            return batch
        batch //= 2
    return None


def _fits(config: TrainConfig, source: PatchSource) -> bool:
    gc.collect()
    if source.device.type == "cuda":
        torch.cuda.empty_cache()
    try:
        TrainStep(config, source, assembly.create(config, source.device)).run()
    except torch.OutOfMemoryError:
        return False
    return True

"""One training step, ours and in the manner of the authors' code, on patches of images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from patchprint import losses, networks
from patchprint.common import rng
from patchprint.data import Tracks, TrackStore, augment
from patchprint.data.batches import PairBatcher
from patchprint.data.patch_source import PatchSource
from patchprint.losses import DescriptorBatch
from patchprint.pipelines.bench import BenchImages
from patchprint.training import TrainConfig, assembly, resolve
from patchprint.training.step import TrainStep

RECIPES = ("hardnet", "sdgmnet")  # the two trunks: batch norm, and filter response norm
_RECORDED = 5  # steps after which ours is compiled and recorded on a GPU


def pairs_on(device: torch.device) -> int:
    """The papers' batch where there is a GPU; a CPU takes its time."""
    return 1024 if device.type == "cuda" else 64


def config_of(recipe: str, pairs: int) -> TrainConfig:
    return resolve(recipe, batch=pairs)


def as_source(data: BenchImages, device: torch.device) -> PatchSource:
    """Keypoints as points with two views each, at the same place: the place does not matter for the time."""
    counts = [len(found) for found in data.keypoints]
    point = np.repeat(np.arange(sum(counts)), 2)
    columns = {
        name: np.concatenate([getattr(found, name).numpy() for found in data.keypoints])[point]
        for name in ("xy", "scale", "angle")
    }
    image = np.repeat(np.arange(len(counts)), counts)[point]
    return TrackStore.from_images(data.images, Tracks.from_observations(image, point=point, **columns), device=device)


def own_step(recipe: str, source: PatchSource, pairs: int) -> Callable[[], None]:
    config = config_of(recipe, pairs)
    step = TrainStep(config, source, assembly.create(config, source.device))
    if source.device.type == "cuda":
        for _ in range(_RECORDED):
            step.run()
    return step.run


def plain_step(config: TrainConfig, source: PatchSource) -> Callable[[], None]:
    """Two forward passes, the loss in eager mode, torch's SGD, the loss read back every step; contiguous float32."""
    device = source.device
    network = networks.create(config.network, **config.network_options).to(device).train()
    loss = losses.create(config.loss, **config.loss_settings).to(device).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=config.lr, momentum=0.9, weight_decay=1e-4)
    batcher, augmentation = PairBatcher(source, config.batch), augment.create(config.augmentation)
    number = 0

    def step() -> None:
        nonlocal number
        counter = torch.tensor(number, device=device)
        key = rng.key(config.seed, counter)
        batch = batcher.batch(counter)
        warp = augmentation.warp(key, torch.ones(config.batch, 2, 2, device=device))
        patches = source.sample(batch.points, batch.views, network.input_size, warp)
        raw = [network.forward_features(patches[:, view], with_maps=False)[0] for view in (0, 1)]
        unit = [network.head(value) for value in raw]
        value = loss(DescriptorBatch(torch.stack(unit, 1), torch.stack(raw, 1), step=counter))["total"]
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        value.item()
        number += 1

    return step

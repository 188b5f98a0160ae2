"""Making a batch must not touch the host: a CUDA graph cannot hold a copy from it, and reading back would stall every step."""

import pytest
import torch

from patchprint.common import rng
from patchprint.data import TrackStore
from patchprint.data.augment import PRESETS, create
from patchprint.data.batches import NeighborBatcher, PairBatcher, ProgressiveBatcher
from patchprint.data.group_batches import (
    GroupBatcher,
    LeadingGroupBatcher,
    SceneGroupBatcher,
    SequencePairBatcher,
)
from support.host_reads import NoHostReads
from support.synthetic_tracks import plane_tracks
from support.training_data import images, with_mined_labels


@pytest.fixture(scope="module")
def store():
    return TrackStore.from_images(*plane_tracks())


@pytest.mark.parametrize("preset", sorted(name for name, preset in PRESETS.items() if preset.channels == 1))
def test_sampling_and_augmentation(store, preset):
    augmentation, step = create(preset), torch.tensor(3)
    batcher = PairBatcher(store, 16)
    with NoHostReads():
        key = rng.key(0, step)
        batch = batcher.batch(step)
        patches = store.sample(batch.points, batch.views, 32, augmentation.warp(key, torch.ones(16, 2, 2)))
        augmentation.light(key, patches)


def test_batchers(store):
    step = torch.tensor(3)
    for batcher in (
        NeighborBatcher(store, 16, run=4),
        ProgressiveBatcher(store, 16),
        GroupBatcher(store, 30, ignore_same_scene=True),
        LeadingGroupBatcher(store, 30),
        SceneGroupBatcher(store, 30, ignore_same_scene=True),
        SequencePairBatcher(with_mined_labels(images(scenes=4)), 30),
    ):
        with NoHostReads():
            batcher.batch(step)

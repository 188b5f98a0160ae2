"""Making a batch must not touch the host: a CUDA graph cannot hold a copy from it, and reading back would stall every step."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from patchprint.common import rng
from patchprint.data.augment import PRESETS, create
from patchprint.data.batches import NeighborBatcher, PairBatcher, ProgressiveBatcher
from patchprint.data.group_batches import (
    GroupBatcher,
    LeadingGroupBatcher,
    SceneGroupBatcher,
    SequencePairBatcher,
)
from patchprint.data.tracks import TrackStore
from support.synthetic_tracks import plane_tracks
from support.training_data import images, with_mined_labels

# Tensors made from Python values, values read back, and results whose shape depends on values.
FORBIDDEN = {"lift_fresh", "_local_scalar_dense", "nonzero", "item", "unique", "masked_select"}


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1]):
            name = "masked_select"
        self.seen.add(name)
        return func(*args, **(kwargs or {}))


def operations(function):
    with Recorder() as recorder:
        function()
    return recorder.seen


def test_the_recorder_sees_what_is_forbidden():
    assert operations(lambda: torch.tensor([1.0, 2.0])) & FORBIDDEN
    values = torch.ones(3)
    assert operations(lambda: float(values[0])) & FORBIDDEN
    assert operations(lambda: values[values > 0]) & FORBIDDEN


@pytest.fixture(scope="module")
def store():
    return TrackStore.from_images(*plane_tracks())


@pytest.mark.parametrize("preset", sorted(name for name, preset in PRESETS.items() if preset.channels == 1))
def test_sampling_and_augmentation(store, preset):
    augmentation, step = create(preset), torch.tensor(3)
    batcher = PairBatcher(store, 16)

    def work():
        key = rng.key(0, step)
        batch = batcher.batch(step)
        patches = store.sample(batch.points, batch.views, 32, augmentation.warp(key, torch.ones(16, 2, 2)))
        augmentation.light(key, patches)

    assert not operations(work) & FORBIDDEN


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
        assert not operations(lambda batcher=batcher: batcher.batch(step)) & FORBIDDEN

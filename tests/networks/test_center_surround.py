"""Two towers: what each of them sees, and how their prints are joined."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from patchprint.data import open_source
from patchprint.networks import create
from support.network_patches import smooth_patches, trained_looking
from support.stores import write_patches


def test_the_surround_sees_what_the_network_it_starts_from_was_trained_on(tmp_path):
    write_patches(tmp_path / "store", np.random.default_rng(0).integers(0, 256, (30, 64, 64), dtype=np.uint8))
    store, network = open_source(tmp_path / "store"), trained_looking("l2net-cs", width=8)
    points, views = torch.arange(5), torch.zeros(5, 1, dtype=torch.int64)
    whole, half = (store.sample(points, views, size)[:, 0] for size in (64, 32))
    assert torch.allclose(network(whole)[:, 128:] * 2**0.5, network.surround(half), atol=1e-5)


def test_the_print_is_two_unit_prints_side_by_side_over_root_two():
    network = trained_looking("l2net-cs", width=8)
    patches = smooth_patches(3, 64).float() / 255
    center = network.center(patches[:, :, 16:48, 16:48])
    surround = network.surround(F.avg_pool2d(patches, 2))
    expected = torch.cat([center, surround], 1) / 2**0.5
    assert torch.allclose(network(patches), expected, atol=1e-5)


def test_training_starts_from_one_tower_with_the_surround_frozen():
    tower, network = trained_looking("l2net", width=8), create("l2net-cs", width=8)
    network.start_from(tower)
    network.train()
    before = {key: value.clone() for key, value in network.surround.state_dict().items()}
    network(smooth_patches(6, 64)).sum().backward()
    assert all(parameter.grad is None for parameter in network.surround.parameters())
    assert all(parameter.grad is not None for parameter in network.center.parameters())
    for key, value in network.surround.state_dict().items():
        assert torch.equal(value, before[key]), key
    middle = smooth_patches(2, 64)[:, :, 16:48, 16:48]
    assert torch.equal(network.eval().surround(middle), tower(middle))

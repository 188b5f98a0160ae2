"""Two towers: what each of them sees, and how their prints are joined."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from patchprint.networks import create
from patchprint.networks.center_surround import bicubic_halving
from support.network_patches import smooth_patches, trained_looking


def test_halving_is_bicubic_with_antialiasing():
    patches = torch.rand(2, 1, 64, 64)
    matrix = bicubic_halving(64)
    expected = F.interpolate(patches, size=(32, 32), mode="bicubic", antialias=True)
    assert torch.allclose(matrix @ patches @ matrix.T, expected, atol=1e-5)


def test_the_print_is_two_unit_prints_side_by_side_over_root_two():
    network = trained_looking("l2net-cs", width=8)
    patches = smooth_patches(3, 64).float() / 255
    center = network.center(patches[:, :, 16:48, 16:48])
    surround = network.surround(F.interpolate(patches, size=(32, 32), mode="bicubic", antialias=True))
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

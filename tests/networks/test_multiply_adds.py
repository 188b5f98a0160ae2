"""Multiply-adds are those that one counts by hand."""

from __future__ import annotations

import pytest
from torch import nn

from patchprint import networks
from patchprint.networks.network import multiply_adds

# Pixels of a map times the weights that make one of them, from layer to layer.
L2NET = (
    32**2 * 9 * (32 + 32 * 32) + 16**2 * 9 * (32 * 64 + 64 * 64) + 8**2 * 9 * (64 * 128 + 128 * 128) + 64 * 128 * 128
)


@pytest.mark.parametrize("name", ["hardnet", "sdgmnet"])
def test_the_l2net_trunk_has_39_million(name: str) -> None:
    network = networks.create(name).train()
    assert multiply_adds(network) == L2NET
    assert network.training
    assert all(not module._forward_hooks for module in network.modules() if isinstance(module, nn.Conv2d))


def test_half_the_width_costs_about_a_quarter() -> None:
    assert multiply_adds(networks.create("hardnet", width=16)) < 0.3 * L2NET

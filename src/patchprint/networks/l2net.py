"""The L2-Net trunk of seven convolutions with batch norm, for L2-Net, HardNet, SOSNet and DOAP."""

from collections.abc import Iterable
from typing import Literal

from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.networks.blocks import PatchStandardization, ViewBatchNorm2d
from patchprint.networks.network import Kind, Maps, PatchNetwork

Init = Literal["orthogonal", "orthogonal-unit", "he"]
MapLayers = Literal["ends", "all"]


def l2net_layers(
    width: int, dim: int, dropout: float, bias: bool, eps: float, learned_norm: bool = False
) -> list[nn.Module]:
    """Create convolution, batch norm and ReLU six times, then dropout, the 8 x 8 convolution and the last batch norm.

    With ``learned_norm``, all batch norms but the first and the last are affine.
    """
    layers: list[nn.Module] = []
    channels = 1
    for factor, stride in ((1, 1), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1)):
        layers.append(nn.Conv2d(channels, factor * width, 3, stride=stride, padding=1, bias=bias))
        layers.append(ViewBatchNorm2d(factor * width, eps=eps, affine=learned_norm and channels > 1))
        layers.append(nn.ReLU())
        channels = factor * width
    return [*layers, nn.Dropout(dropout), nn.Conv2d(channels, dim, 8, bias=bias), ViewBatchNorm2d(dim, eps=eps)]


def initialize(network: nn.Module, init: Init) -> None:
    """Initialize all convolutions: orthogonal with gain 0.6 (HardNet) or 1 (SOSNet), or He's normal (DOAP)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            if init == "he":
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            else:
                nn.init.orthogonal_(module.weight, gain=0.6 if init == "orthogonal" else 1.0)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def run_layers(
    layers: Iterable[nn.Module], x: Tensor, with_maps: bool, keep: MapLayers = "ends"
) -> tuple[Tensor, Maps | None]:
    """Run the trunk, and keep the outputs of the first and the last batch norm, or of all.

    Shape:
        x (N, 1, 32, 32) -> raw (N, D), maps ((N, 32 * 32 * width), ..., (N, D)) or None.
    """
    maps: list[Tensor] = []
    dtype = x.dtype  # that of the weights, which autocast shortens and the last batch norm needs
    *body, last_norm = layers
    for layer in body:
        x = layer(x)
        if with_maps and isinstance(layer, ViewBatchNorm2d) and (keep == "all" or not maps):
            maps.append(x.flatten(1))
    raw = last_norm(x.to(dtype)).flatten(1)
    return raw, (*maps, raw) if with_maps else None


class L2Net(PatchNetwork):
    """L2-Net, HardNet and DOAP by their settings; state-dict keys are those of kornia's HardNet.

    L2-Net's release also subtracts the mean image of its training patches, which is nearly flat and would make descriptors
    depend on contrast; it is left out.

    Args:
        learned_norm: learn scale and shift of the batch norms that no map is taken from (L2-Net's Fig. 3a).
        maps: return the maps after every batch norm with "all" (ibid.).

    Shape:
        (N, 1, 32, 32) -> (N, dim).
    """

    def __init__(
        self,
        dim: int = 128,
        width: int = 32,
        dropout: float = 0.0,
        bias: bool = False,
        bn_eps: float = 1e-5,
        init: Init = "orthogonal",
        kind: Kind = "float",
        learned_norm: bool = False,
        maps: MapLayers = "ends",
    ) -> None:
        super().__init__(dim, kind)
        if maps not in ("ends", "all"):
            raise UserError(f"maps must be 'ends' or 'all', not {maps!r}")
        self.maps = maps
        self.standardize = PatchStandardization()
        self.features = nn.Sequential(*l2net_layers(width, dim, dropout, bias, bn_eps, learned_norm))
        initialize(self, init)

    def chain(self) -> list[nn.Module]:
        return [self.standardize, *self.features]

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        x = self.standardize(patches).to(self.dtype)
        return run_layers(self.features, x, with_maps, self.maps)


class SOSNet(PatchNetwork):
    """L2-Net's trunk behind instance normalization; state-dict keys are those of kornia's SOSNet.

    Shape:
        (N, 1, 32, 32) -> (N, dim).
    """

    def __init__(self, dim: int = 128, width: int = 32, dropout: float = 0.1, kind: Kind = "float") -> None:
        super().__init__(dim, kind)
        body = l2net_layers(width, dim, dropout, bias=False, eps=1e-5)
        self.layers = nn.Sequential(nn.InstanceNorm2d(1), *body)
        initialize(self, "orthogonal-unit")

    def chain(self) -> list[nn.Module]:
        return [*self.layers]

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        return run_layers(self.layers, patches.to(self.dtype), with_maps)


def hardnet(dim: int = 128, width: int = 32, dropout: float = 0.3, kind: Kind = "float") -> PatchNetwork:
    return L2Net(dim, width, dropout, kind=kind)


def l2net(
    dim: int = 128,
    width: int = 32,
    dropout: float = 0.0,
    kind: Kind = "float",
    learned_norm: bool = False,
    maps: MapLayers = "ends",
) -> PatchNetwork:
    # The options learned_norm and maps="all" are curves C and D of the paper's Fig. 3a.
    return L2Net(dim, width, dropout, bias=True, bn_eps=1e-4, kind=kind, learned_norm=learned_norm, maps=maps)


def doap(dim: int = 128, width: int = 32, dropout: float = 0.1, kind: Kind = "float") -> PatchNetwork:
    return L2Net(dim, width, dropout, init="he", kind=kind)


def doap_binary(dim: int = 256, width: int = 32, dropout: float = 0.1) -> PatchNetwork:
    return doap(dim, width, dropout, kind="binary")

"""TFeat: a shallow network with two convolutions and one linear layer."""

from torch import Tensor, nn

from patchprint.networks.blocks import PatchStandardization
from patchprint.networks.network import Kind, Maps, PatchNetwork


class TFeat(PatchNetwork):
    """TFeat, whose final tanh is ``raw`` here; state-dict keys are those of kornia's TFeat.

    HardTFeat (``standardize``) divides by the standard deviation where TFeat has instance normalization.

    Shape:
        (N, 1, 32, 32) -> (N, dim).
    """

    has_maps = False

    def __init__(self, dim: int = 128, width: int = 32, kind: Kind = "float", standardize: bool = False) -> None:
        super().__init__(dim, kind)
        self.features = nn.Sequential(
            PatchStandardization() if standardize else nn.InstanceNorm2d(1),
            nn.Conv2d(1, width, 7),
            nn.Tanh(),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(width, 2 * width, 6),
            nn.Tanh(),
        )
        self.descr = nn.Sequential(nn.Linear(2 * width * 8 * 8, dim), nn.Tanh())

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        x = self.features(patches.to(self.dtype))
        return self.descr(x.flatten(1)), None

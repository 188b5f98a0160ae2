"""The centre-surround variant: one tower looks at the whole patch, the other at its middle."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from patchprint.common.errors import UserError
from patchprint.networks.network import Maps, PatchNetwork


class CenterSurround(PatchNetwork):
    """Two towers on a 64x64 patch: ``surround`` sees all of it at half size, ``center`` its central 32x32 pixels.

    The surround reads means of 2x2 pixels (L2-Net's release shrinks bicubically), because that is what stores give to the
    single tower it starts from. The print is the two unit prints side by side, divided by the square root of 2, which L2-Net
    leaves out: distances, and with them the logits of its loss, shrink by as much. Training starts from one trained tower:
    see ``start_from``.

    Shape:
        (N, 1, 64, 64) -> (N, 2 * tower.dim), the centre's half first.
    """

    def __init__(self, center: PatchNetwork, surround: PatchNetwork) -> None:
        size = surround.input_size
        super().__init__(center.dim + surround.dim, center.kind, input_size=2 * size, parts=2)
        if center.dim != surround.dim or center.kind != surround.kind or center.input_size != size:
            raise UserError("the two towers of a centre-surround network must have the same dimension, kind and input")
        self.center = center
        self.surround = surround
        self.has_maps = center.has_maps and surround.has_maps
        self.cancels_brightness = center.cancels_brightness and surround.cancels_brightness
        self.surround_frozen = False

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        border = self.input_size // 4
        middle = patches[:, :, border:-border, border:-border]
        whole = F.avg_pool2d(patches, 2)
        raw_center, maps_center = self.center.encode(middle, with_maps)
        raw_surround, maps_surround = self.surround.encode(whole, with_maps)
        raw = torch.cat([raw_center, raw_surround], 1)
        if maps_center is None or maps_surround is None:
            return raw, None
        return raw, tuple(torch.cat(both, 1) for both in zip(maps_center, maps_surround, strict=True))

    def start_from(self, tower: PatchNetwork, freeze_surround: bool = True) -> None:
        """Copy the weights of a trained tower into both; L2-Net then trains the centre only."""
        for part in (self.center, self.surround):
            part.load_state_dict(tower.state_dict())
        self.surround_frozen = freeze_surround
        self.surround.requires_grad_(not freeze_surround)
        self.train(self.training)

    def train(self, mode: bool = True) -> CenterSurround:
        super().train(mode)
        if self.surround_frozen:
            self.surround.eval()
        return self

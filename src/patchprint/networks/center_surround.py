"""The centre-surround variant: one tower looks at the whole patch, the other at its middle."""

from __future__ import annotations

import torch
from torch import Tensor

from patchprint.errors import UserError
from patchprint.networks.base import Maps, PatchNetwork


class CenterSurround(PatchNetwork):
    """Two towers on a 64x64 patch: ``surround`` sees all of it at half size, ``center`` its central 32x32 pixels.

    The print is the two unit prints side by side, divided by the square root of 2 (L2-Net leaves that division out).
    Training starts from one trained tower: see ``start_from``.

    Shape:
        (N, 1, 64, 64) -> (N, 2 * tower.dim), the centre's half first.
    """

    halving: Tensor

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
        self.register_buffer("halving", bicubic_halving(2 * size), persistent=False)

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        border = self.input_size // 4
        middle = patches[:, :, border:-border, border:-border]
        with torch.autocast(patches.device.type, enabled=False):  # eight bits of bfloat16 are too few for pixels
            whole = self.halving @ patches.to(self.halving.dtype) @ self.halving.T
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


def bicubic_halving(size: int) -> Tensor:
    """The matrix that halves a row of pixels by bicubic interpolation (Keys, a = -1/2, stretched by 2 against aliasing).

    A matrix product is the same in every runtime, where "bicubic with anti-aliasing" is not. Taps that fall outside
    the patch are dropped and the rest is scaled to sum 1, as Pillow and torch do.

    Shape:
        -> (size // 2, size) float32, rows sum to 1.
    """
    outputs, inputs = torch.arange(size // 2, dtype=torch.float64), torch.arange(size, dtype=torch.float64)
    distance = ((inputs + 0.5)[None] - 2 * (outputs + 0.5)[:, None]).abs() / 2
    near = 1.5 * distance**3 - 2.5 * distance**2 + 1
    far = -0.5 * distance**3 + 2.5 * distance**2 - 4 * distance + 2
    weights = torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))
    return (weights / weights.sum(1, keepdim=True)).float()

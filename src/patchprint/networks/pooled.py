"""A patch network that looks at a patch in three sizes: thrice the work, one descriptor."""

from __future__ import annotations

import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.networks.blocks import middle_square
from patchprint.networks.heads import unit_length
from patchprint.networks.network import Maps, PatchNetwork

_QUARTERS = (4, 3, 2)


class PooledNetwork(PatchNetwork):
    """The mean of the unit descriptors of nested squares around the middle: all of the patch, three quarters, and a half.

    Keypoints of two photos differ in scale, and what is told apart in a small square may look alike in a large one; the
    mean is right more often than any of the three (docs/evidence/training-log.md). The network itself may have learned alone.

    Shape:
        (N, 1, 2 S, 2 S) -> (N, network.dim), where ``network`` takes patches of S x S pixels.
    """

    has_maps = False

    def __init__(self, network: PatchNetwork) -> None:
        if network.kind == "binary":
            raise UserError("signs have no mean; give pooled weights kind 'float'")
        super().__init__(network.dim, network.kind, 2 * network.input_size)
        self.network = network
        self.cancels_brightness = network.cancels_brightness

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        squares = torch.stack([middle_square(patches[:, 0], quarters) for quarters in _QUARTERS], 1)
        raw, _ = self.network.encode(squares.flatten(0, 1)[:, None], with_maps=False)
        return unit_length(raw).unflatten(0, (-1, len(_QUARTERS))).mean(1), None

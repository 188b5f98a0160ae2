"""The spatial-transformer front end of DOAP: a small network that straightens a patch before it is described."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchprint.common.errors import UserError
from patchprint.networks.blocks import PatchStandardization, ViewBatchNorm2d
from patchprint.networks.network import Maps, PatchNetwork

Padding = Literal["border", "zeros"]


class SpatialTransformer(nn.Module):
    """Three convolutions predict an affine map with six degrees of freedom, by which the patch is resampled.

    It starts as the identity (the whole 42x42 patch, shrunk to 32x32). Outside of the patch its border is repeated, or, with
    ``padding`` "zeros", there is its mean, which is zero where patches are standardized first; DOAP's Appendix B compares the
    two. The papers do not give the sizes of the convolutions; these are ours. The last one is the affine prediction.

    Shape:
        (N, 1, 42, 42) -> (N, 1, 32, 32).
    """

    x: Tensor
    y: Tensor

    def __init__(self, input_size: int = 42, output_size: int = 32, padding: Padding = "border") -> None:
        super().__init__()
        if padding not in get_args(Padding):
            raise UserError(f"padding must be one of {', '.join(get_args(Padding))}, not {padding!r}")
        self.padding: Padding = padding
        centers = (2 * torch.arange(output_size) + 1) / output_size - 1
        self.register_buffer("x", centers.expand(output_size, output_size).contiguous(), persistent=False)
        self.register_buffer("y", centers[:, None].expand(output_size, output_size).contiguous(), persistent=False)
        self.standardize = PatchStandardization()
        self.localise = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2, bias=False),
            ViewBatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 5, stride=2, bias=False),
            ViewBatchNorm2d(32),
            nn.ReLU(),
        )
        remaining = ((input_size - 5) // 2 + 1 - 5) // 2 + 1
        self.predict = nn.Conv2d(32, 6, remaining)
        nn.init.zeros_(self.predict.weight)
        assert self.predict.bias is not None
        with torch.no_grad():
            self.predict.bias.copy_(torch.tensor([1.0, 0, 0, 0, 1, 0]))

    def affine(self, patches: Tensor) -> Tensor:
        """The predicted maps from output to input coordinates, both in [-1, 1].

        Shape:
            (N, 1, 42, 42) -> (N, 2, 3) float32, or float64 where the weights are.
        """
        x = self.standardize(patches).to(self.predict.weight.dtype)
        predicted = self.predict(self.localise(x)).reshape(-1, 2, 3)
        return predicted if predicted.dtype == torch.float64 else predicted.float()

    def forward(self, patches: Tensor) -> Tensor:
        # Written as sums and products: they stay float32 under autocast and take an empty batch.
        a = self.affine(patches)[:, None, None]
        grid = a[..., 0] * self.x[..., None] + a[..., 1] * self.y[..., None] + a[..., 2]
        # Zeros are only the mean of a patch that has none; what is read of it is standardized again afterwards.
        pixels = self.standardize(patches) if self.padding == "zeros" else patches
        # PyTorch reads at places that are no numbers, and ends the process; they give pixels that are no numbers instead.
        is_nowhere = grid.isnan().any(-1)
        sampled = F.grid_sample(
            pixels.to(grid.dtype),
            grid.masked_fill(is_nowhere[..., None], 0.0),
            mode="bilinear",
            padding_mode=self.padding,
            align_corners=False,
        )
        return sampled.masked_fill(is_nowhere[:, None], torch.nan)


class TransformedNetwork(PatchNetwork):
    """A patch network behind a spatial transformer.

    Shape:
        (N, 1, 42, 42) -> (N, network.dim).
    """

    # DOAP trains the affine prediction a hundred times slower than the rest.
    PREDICTION_LR_FACTOR = 0.01

    def __init__(self, network: PatchNetwork, input_size: int = 42, padding: Padding = "border") -> None:
        super().__init__(network.dim, network.kind, input_size)
        self.transformer = SpatialTransformer(input_size, network.input_size, padding)
        self.network = network
        self.has_maps, self.cancels_brightness = network.has_maps, network.cancels_brightness

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        return self.network.encode(self.transformer(patches), with_maps)

    def parameter_groups(self) -> list[dict[str, Any]]:
        slow = list(self.transformer.predict.parameters())
        chosen = {id(parameter) for parameter in slow}
        rest = [parameter for parameter in self.parameters() if id(parameter) not in chosen]
        return [
            {"params": rest, "lr_factor": 1.0, "decays": True},
            {"params": slow, "lr_factor": self.PREDICTION_LR_FACTOR, "decays": True},
        ]

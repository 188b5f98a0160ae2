"""Networks that wrap networks: center-surround, spatial transformer."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchprint.common.errors import UserError
from patchprint.networks.blocks import PatchStandardization, ViewBatchNorm2d, at_least_float32
from patchprint.networks.l2net import doap, l2net
from patchprint.networks.network import Kind, Maps, PatchNetwork

Padding = Literal["border", "zeros"]


class CenterSurround(PatchNetwork):
    """Two equal towers: ``surround`` sees the whole patch at half size, ``center`` its middle.

    The surround reads means of 2 x 2 pixels, as the single tower it starts from was trained (L2-Net's release shrinks
    bicubically). The two unit descriptors are concatenated and divided by the square root of 2, which L2-Net leaves out:
    distances, and with them the logits of its loss, shrink by as much.

    Shape:
        (N, 1, 64, 64) -> (N, 2 * tower.dim), the center's half first.
    """

    def __init__(self, center: PatchNetwork, surround: PatchNetwork) -> None:
        super().__init__(2 * center.dim, center.kind, 2 * center.input_size, parts=2)
        self.center = center
        self.surround = surround
        self.has_maps, self.cancels_brightness = center.has_maps, center.cancels_brightness
        self.surround_frozen = False

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        border = self.input_size // 4
        raw_center, maps_center = self.center.encode(patches[:, :, border:-border, border:-border], with_maps)
        raw_surround, maps_surround = self.surround.encode(F.avg_pool2d(patches, 2), with_maps)
        raw = torch.cat([raw_center, raw_surround], 1)
        if maps_center is None or maps_surround is None:
            return raw, None
        return raw, tuple(torch.cat(both, 1) for both in zip(maps_center, maps_surround, strict=True))

    def start_from(self, tower: PatchNetwork) -> None:
        """Copy the weights of a trained tower into both, and freeze the surround as L2-Net does."""
        for part in (self.center, self.surround):
            part.load_state_dict(tower.state_dict())
        self.surround_frozen = True
        self.surround.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> CenterSurround:
        super().train(mode)
        if self.surround_frozen:
            self.surround.eval()
        return self


class SpatialTransformer(nn.Module):
    """Three convolutions predict an affine map by which the patch is resampled; they start with the identity.

    Beyond its border the patch is repeated, or has its mean with ``padding`` "zeros"; DOAP's Appendix B compares the two. The
    papers do not give the sizes of the convolutions.

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
        """Predict the maps from output to input coordinates, both in [-1, 1].

        Shape:
            (N, 1, 42, 42) -> (N, 2, 3) float32, or float64 where the weights are.
        """
        x = self.standardize(patches).to(self.predict.weight.dtype)
        return at_least_float32(self.predict(self.localise(x)).reshape(-1, 2, 3))

    def forward(self, patches: Tensor) -> Tensor:
        # Written as sums and products: they stay float32 under autocast and take an empty batch.
        a = self.affine(patches)[:, None, None]
        grid = a[..., 0] * self.x[..., None] + a[..., 1] * self.y[..., None] + a[..., 2]
        # Zero is the mean of a standardized patch; the network standardizes again.
        pixels = self.standardize(patches) if self.padding == "zeros" else patches
        # NaN coordinates crash grid_sample; they give NaN pixels instead.
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
    """A patch network behind a spatial transformer: (N, 1, 42, 42) -> (N, network.dim)."""

    def __init__(self, network: PatchNetwork, input_size: int = 42, padding: Padding = "border") -> None:
        super().__init__(network.dim, network.kind, input_size)
        self.transformer = SpatialTransformer(input_size, network.input_size, padding)
        self.network = network
        self.has_maps, self.cancels_brightness = network.has_maps, network.cancels_brightness

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        return self.network.encode(self.transformer(patches), with_maps)

    def parameter_groups(self) -> list[dict[str, Any]]:
        # DOAP trains the affine prediction a hundred times slower than the rest.
        groups: dict[float, list[nn.Parameter]] = {1.0: [], 0.01: []}
        for name, parameter in self.named_parameters():
            groups[0.01 if name.startswith("transformer.predict.") else 1.0].append(parameter)
        return [{"params": params, "lr_factor": factor, "decays": True} for factor, params in groups.items()]


def l2net_cs(dim: int = 256, width: int = 32, dropout: float = 0.0, kind: Kind = "float") -> PatchNetwork:
    if dim % 2:
        raise UserError(f"a center-surround network needs an even dimension, not {dim}")
    return CenterSurround(l2net(dim // 2, width, dropout, kind), l2net(dim // 2, width, dropout, kind))


def doap_st(
    dim: int = 128, width: int = 32, dropout: float = 0.1, kind: Kind = "float", padding: Padding = "border"
) -> PatchNetwork:
    return TransformedNetwork(doap(dim, width, dropout, kind), padding=padding)

"""Shared layers: input normalization, batch norm that knows about views, and the heads."""

import warnings
from typing import cast

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError


def at_least_float32(x: Tensor) -> Tensor:
    """Return ``x`` in float32, or in float64 where it is."""
    return x if x.dtype == torch.float64 else x.float()


class PatchStandardization(nn.Module):
    """Zero mean and unit (unbiased) deviation of each channel of a patch; no gradient flows through the statistics (HardNet).

    Brightness ``x + b`` and contrast ``a * x`` cancel. The epsilon is kornia's 1e-6, so that both agree on flat patches.

    Shape:
        (N, C, S, S) -> (N, C, S, S), float32 inside.
    """

    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, patches: Tensor) -> Tensor:
        centered = patches - patches.detach().mean((2, 3), keepdim=True)
        # Written out because torch.std has no lowering that every ONNX runtime understands.
        squares = centered.detach().square().sum((2, 3), keepdim=True)
        deviation = (squares / (patches.shape[2] * patches.shape[3] - 1)).sqrt()
        return centered / (deviation + self.eps)


class Fovea(nn.Module):
    """Nested squares around the middle of a patch as channels: the whole side, three quarters of it, and half.

    Each square is resampled to half the pixels a side and standardized by itself, since surroundings may be lit differently.
    ``count`` 2 leaves out the one in the middle.

    Shape:
        (N, 1, S, S) -> (N, count, S / 2, S / 2), S a multiple of 8.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        if count not in (2, 3):
            raise UserError(f"a fovea has 2 or 3 squares, not {count}")
        self.quarters = (4, 2) if count == 2 else (4, 3, 2)
        self.standardize = PatchStandardization()

    def forward(self, patches: Tensor) -> Tensor:
        # The channel dimension is added last: with a single channel OpenVINO chooses a layout that is slow to copy.
        squares = [middle_square(patches[:, 0], quarters) for quarters in self.quarters]
        return self.standardize(torch.stack(squares, 1))


def middle_square(patches: Tensor, quarters: int) -> Tensor:
    """Crop the middle ``quarters`` / 4 of the side (4, 3 or 2) and resample it to half the patch's pixels a side.

    Shape:
        (N, S, S) -> (N, S / 2, S / 2), S a multiple of 8.
    """
    size = patches.shape[-1]
    border = size * (4 - quarters) // 8
    middle = patches[:, border : size - border, border : size - border]
    # Sums of rows, transposed, and again: a few times faster on a CPU than pooling, and than columns in OpenVINO.
    if quarters == 4:
        return _one_of_two(_one_of_two(middle).transpose(-1, -2)).transpose(-1, -2) / 4
    return _two_of_three(_two_of_three(middle).transpose(-1, -2)).transpose(-1, -2) / 9 if quarters == 3 else middle


def _one_of_two(maps: Tensor) -> Tensor:
    """Sum pairs of rows, (N, R, S) -> (N, R / 2, S)."""
    return maps[:, ::2] + maps[:, 1::2]


def _two_of_three(maps: Tensor) -> Tensor:
    """Resample three rows to two by area, times three, (N, R, S) -> (N, 2 / 3 R, S)."""
    first, second, third = maps.unflatten(1, (-1, 3)).unbind(2)
    return torch.stack([2 * first + second, second + 2 * third], 2).flatten(1, 2)


class ViewBatchNorm2d(nn.BatchNorm2d):
    """Batch norm that normalizes each view of a view-major training batch by itself.

    Outputs and running statistics of a batch of ``num_views`` views are those of as many passes, as the published networks
    have it. With several processes, statistics are those of the batch over all ranks, which must hold equally many patches,
    and gradients flow through them.

    Shape:
        (K * P, C, H, W) -> (K * P, C, H, W), same dtype; statistics in float32.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = False) -> None:
        super().__init__(num_features, eps=eps, affine=affine)
        self.num_views = 1

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        if len(x) % self.num_views:
            raise UserError(f"a training batch of {len(x)} patches cannot be split into {self.num_views} equal views")
        views = x.unflatten(0, (self.num_views, -1)).unbind() if self.num_views > 1 else (x,)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            normalized = [self._over_all_ranks(view) for view in views]
        else:
            normalized = [super(ViewBatchNorm2d, self).forward(view) for view in views]
        return normalized[0] if len(normalized) == 1 else torch.cat(normalized)

    def _over_all_ranks(self, x: Tensor) -> Tensor:
        from patchprint.common import distributed  # only training in several processes needs it

        world = distributed.world_size()
        wide = at_least_float32(x)
        local_variance, local_mean = torch.var_mean(wide, (0, 2, 3), correction=0)
        mean = distributed.sum_over_ranks(local_mean) / world
        # Variance within the ranks plus between them, without the cancellation of E[x^2] - E[x]^2.
        variance = distributed.sum_over_ranks(local_variance + (local_mean - mean).square()) / world
        cast(Tensor, self.num_batches_tracked).add_(1)
        count = world * x.numel() // x.shape[1]
        unbiased = variance * (count / max(count - 1, 1))
        for running, now in ((self.running_mean, mean), (self.running_var, unbiased)):
            cast(Tensor, running).lerp_(now.detach().to(cast(Tensor, running).dtype), cast(float, self.momentum))
        normalized = (wide - mean[:, None, None]) * torch.rsqrt(variance + self.eps)[:, None, None]
        if self.affine:
            normalized = normalized * self.weight[:, None, None] + self.bias[:, None, None]
        return normalized.to(x.dtype)


def set_num_views(network: nn.Module, num_views: int) -> None:
    """Tell every batch norm how many views a training batch holds; warn of batch norms that cannot be told."""
    plain = []
    for name, module in network.named_modules():
        if isinstance(module, ViewBatchNorm2d):
            module.num_views = num_views
        elif isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training:
            plain.append(f"{name} ({type(module).__name__})")
    if plain:
        warnings.warn(
            f"batch norm that mixes the views of a batch, and knows nothing of other processes: {', '.join(plain)}; "
            "use patchprint.networks.blocks.ViewBatchNorm2d",
            stacklevel=2,
        )


def unit_length(raw: Tensor) -> Tensor:
    """Divide by the L2 norm, with 1e-10 under the root, in float32 at least.

    Shape:
        (..., D) -> (..., D). A zero vector stays zero.
    """
    wide = at_least_float32(raw)
    return wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-10)


class FloatHead(nn.Module):
    """Unit vectors, of ``parts`` pieces of equal length: (N, D) -> (N, D) float32."""

    def __init__(self, parts: int = 1) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, raw: Tensor) -> Tensor:
        if self.parts == 1:
            return unit_length(raw)
        return unit_length(raw.unflatten(-1, (self.parts, -1))).flatten(-2) / self.parts**0.5


class BinaryHead(nn.Module):
    """Unit tanh in training; signs / sqrt(D) in evaluation, whose dot product is 1 - 2 * Hamming / D. The sign of 0 is -1.

    Shape:
        (N, D) -> (N, D) float32.
    """

    def forward(self, raw: Tensor) -> Tensor:
        if self.training:
            return unit_length(torch.tanh(raw))
        return torch.where(raw > 0, 1.0, -1.0).to(raw.dtype) / raw.shape[-1] ** 0.5


def create_head(kind: str, dim: int, parts: int = 1) -> nn.Module:
    """Create the head for ``kind`` "float" or "binary"."""
    if kind == "float":
        return FloatHead(parts)
    if kind != "binary":
        raise UserError(f"a network's kind is 'float' or 'binary', not {kind!r}")
    if dim % 8:
        raise UserError(f"a binary network needs a dimension that is a multiple of 8, not {dim}")
    return BinaryHead()

"""Layers that the patch networks share: input normalisation, FRN, TLU, and batch norm that knows about views."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from patchprint.common import distributed
from patchprint.common.errors import UserError


class PatchStandardization(nn.Module):
    """Zero mean and unit (unbiased) deviation of each channel of a patch; the statistics carry no gradient (HardNet).

    The epsilon beside the standard deviation is kornia's 1e-6 (HardNet's first release has 1e-7), so that both
    agree on flat patches too. Brightness ``x + b`` and contrast ``a * x`` cancel.

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
    """A patch seen in nested squares around its middle, as channels: all of it, three quarters of the side, and a half.

    Squares have half the patch's pixels a side, so that the smallest keeps its pixels; in the others a pixel is the mean over
    its area. ``count`` 2 leaves out the one between. Each is standardized by itself, as `PatchStandardization` does it,
    since what surrounds a place may be lit otherwise.

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
        # Without a channel until they are put together: for one of them OpenVINO lays maps out in a way that it copies slowly.
        squares = [middle_square(patches[:, 0], quarters) for quarters in self.quarters]
        return self.standardize(torch.stack(squares, 1))


def middle_square(patches: Tensor, quarters: int) -> Tensor:
    """The middle of patches, so many quarters of the side (4, 3 or 2), in half the pixels a side.

    Shape:
        (N, S, S) -> (N, S / 2, S / 2), S a multiple of 8.
    """
    size = patches.shape[-1]
    border = size * (4 - quarters) // 8
    middle = patches[:, border : size - border, border : size - border]
    # Sums of rows, turned, and of rows again: a few times faster on a CPU than pooling, or than columns in OpenVINO.
    if quarters == 4:
        return _one_of_two(_one_of_two(middle).mT).mT / 4
    return _two_of_three(_two_of_three(middle).mT).mT / 9 if quarters == 3 else middle


def _one_of_two(maps: Tensor) -> Tensor:
    """Sums of two rows, (N, R, S) -> (N, R / 2, S)."""
    return maps[:, ::2] + maps[:, 1::2]


def _two_of_three(maps: Tensor) -> Tensor:
    """Three times the means over areas of two rows where there were three, (N, R, S) -> (N, 2 / 3 R, S)."""
    first, second, third = maps.unflatten(1, (-1, 3)).unbind(2)
    return torch.stack([2 * first + second, second + 2 * third], 2).flatten(1, 2)


class FilterResponseNorm2d(nn.Module):
    """FRN: ``weight * x / sqrt(mean(x^2 over the map) + |eps|) + bias``, per sample and channel, no mean subtraction.

    Statistics and scaling are float32 whatever the precision of the input, since scale and bias nearly cancel in
    trained networks.

    Shape:
        (N, C, H, W) -> (N, C, H, W), same dtype.
    """

    eps: Tensor

    def __init__(self, num_features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, num_features, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, num_features, 1, 1))
        self.register_buffer("eps", torch.tensor([eps]))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        scale = torch.rsqrt(wide.square().mean((2, 3), keepdim=True) + self.eps.abs())
        return torch.addcmul(self.bias, wide, self.weight * scale).to(x.dtype)


class TLU(nn.Module):
    """Thresholded linear unit ``max(x, tau)``, one learned tau per channel, starting at -1 (HyNet; the FRN paper has 0).

    Shape:
        (N, C, H, W) -> (N, C, H, W), same dtype.
    """

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.tau = nn.Parameter(torch.full((1, num_features, 1, 1), -1.0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, self.tau.to(x.dtype))


class ViewBatchNorm2d(nn.BatchNorm2d):
    """Batch norm that normalises every view of a training batch alone; patch networks have no affine part.

    The published networks send anchors and positives through in two passes, so that batch norm sees each half alone.
    With ``num_views`` K a batch laid out view-major (all points of view 0, then all of view 1, ...) gives the same
    result in one pass: outputs and running statistics are those of K passes in that order. Where torch.distributed
    is initialised, the statistics are those of the batch over all ranks (every rank must hold equally many patches),
    and gradients flow through them. In evaluation the running statistics are used and views do not matter.

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
        if distributed.are_several():
            normalized = [self._over_all_ranks(view) for view in views]
        else:
            normalized = [super(ViewBatchNorm2d, self).forward(view) for view in views]
        return normalized[0] if len(normalized) == 1 else torch.cat(normalized)

    def _over_all_ranks(self, x: Tensor) -> Tensor:
        world = distributed.world_size()
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        local_variance, local_mean = torch.var_mean(wide, (0, 2, 3), correction=0)
        mean = distributed.sum_over_ranks(local_mean) / world
        # Parallel variance: within the ranks plus between them, without the cancellation of E[x^2] - E[x]^2.
        variance = distributed.sum_over_ranks(local_variance + (local_mean - mean).square()) / world
        self._track(mean.detach(), variance.detach(), count=world * x.numel() // x.shape[1])
        scale = torch.rsqrt(variance + self.eps)
        normalized = (wide - mean[:, None, None]) * scale[:, None, None]
        if self.affine:
            normalized = normalized * self.weight[:, None, None] + self.bias[:, None, None]
        return normalized.to(x.dtype)

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
        unbiased = variance * (count / max(count - 1, 1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)


def set_num_views(network: nn.Module, num_views: int) -> None:
    """Tell every batch norm in ``network`` how many views a training batch holds (view-major).

    Other batch norms that learn cannot be told: a warning names them.
    """
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

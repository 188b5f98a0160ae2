"""Photometric augmentation (light, lens, camera) of batches of patches (N, 1, S, S) in [0, 1], one strength per patch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_BLUR_RADIUS = 3
# Luminance table of the JPEG standard (Annex K), rows by vertical frequency.
_LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_LUMINANCE_ROWS = tuple(sum(value << (7 * column) for column, value in enumerate(row)) for row in _LUMINANCE)


def relight(patches: Tensor, contrast: Tensor, brightness: Tensor) -> Tensor:
    """Scale contrast (N,) around the mean of each patch, add an offset (N,), and clip."""
    mean = patches.mean((-2, -1), keepdim=True)
    changed = (patches - mean) * contrast[:, None, None, None] + mean + brightness[:, None, None, None]
    return changed.clamp(0.0, 1.0)


def blur(patches: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur with sigma (N,) in pixels, up to about 1.5; zero leaves a patch as it is."""
    tap = torch.arange(-_BLUR_RADIUS, _BLUR_RADIUS + 1, device=patches.device)
    weight = torch.exp(-0.5 * (tap / sigma.clamp(min=1e-2)[:, None]) ** 2)
    weight = weight / weight.sum(1, keepdim=True)
    size, r = patches.shape[-1], _BLUR_RADIUS
    padded = F.pad(patches, (r, r, r, r), mode="replicate")
    rows = torch.zeros_like(padded[..., :size, :])
    for k in range(2 * r + 1):
        rows = rows + padded[..., k : k + size, :] * weight[:, k, None, None, None]
    out = torch.zeros_like(patches)
    for k in range(2 * r + 1):
        out = out + rows[..., k : k + size] * weight[:, k, None, None, None]
    return out


def jpeg(patches: Tensor, quality: Tensor) -> Tensor:
    """Simulate JPEG artifacts: quantize 8x8 DCT coefficients as ``quality`` (N,) in (1, 100] does."""
    count, _, size, _ = patches.shape
    padding = -size % 8
    padded = F.pad(patches, (0, padding, 0, padding), mode="replicate") if padding else patches
    cells = (size + padding) // 8
    blocks = padded.reshape(count, cells, 8, cells, 8).transpose(2, 3) * 255.0 - 128.0
    basis = _cosines(patches.device)
    percent = torch.where(quality < 50, 5000.0 / quality, 200.0 - 2.0 * quality)
    table = _luminance(patches.device)
    step = torch.floor(table * percent[:, None, None] / 100.0 + 0.5).clamp(min=1.0)[:, None, None]
    rounded = torch.round(_both_sides(blocks, basis) / step) * step
    restored = (_both_sides(rounded, basis.T) + 128.0) / 255.0
    restored = restored.transpose(2, 3).reshape(count, 1, cells * 8, cells * 8)
    return restored[..., :size, :size].clamp(0.0, 1.0)


def _luminance(device: torch.device) -> Tensor:
    """The table as (8, 8) float. Rows are unpacked from single numbers, since a tensor made from a list would be copied from
    the host at every step, which a CUDA graph cannot hold."""
    shift = 7 * torch.arange(8, device=device)
    rows = [torch.full((8,), number, dtype=torch.int64, device=device) >> shift for number in _LUMINANCE_ROWS]
    return (torch.stack(rows) & 127).float()


def _cosines(device: torch.device) -> Tensor:
    """Orthonormal DCT-II of 8 values, (8, 8)."""
    k, n = torch.arange(8, device=device).float()[:, None], torch.arange(8, device=device).float()[None, :]
    basis = torch.cos(torch.pi / 8.0 * (n + 0.5) * k) * 0.5
    return torch.where(k == 0, basis / 2.0**0.5, basis)


def _both_sides(blocks: Tensor, basis: Tensor) -> Tensor:
    """basis @ block @ basis^T in float32 whatever autocast says: rounding would show its coarser digits."""
    with torch.autocast(device_type=blocks.device.type, enabled=False):
        return basis @ blocks.float() @ basis.T

"""Contact sheets for visual inspection: one row of patches per point."""

import numpy as np
import torch

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.data.batches import several_views
from patchprint.data.patch_source import PatchSource

GAP = 2
WHITE = 255
_BLOCK = 16


def contact_sheet(
    source: PatchSource, num_points: int = 100, num_views: int = 8, size: int = 48, columns: int = 4, seed: int = 0
) -> np.ndarray:
    """Draw random points, one per row, in ``columns`` blocks beside each other, contrast stretched; white where views lack.

    Shape:
        -> uint8, (H, W) where patches are gray, (H, W, 3) RGB where they are in color.
    """
    eligible = (source.num_views >= 2).nonzero()[:, 0]
    if len(eligible) == 0:
        raise UserError("there is no point with two views to show")
    key = rng.key(seed, 0, device=source.device)
    points = eligible[rng.permutation(rng.fold_in(key, 0), len(eligible))[:num_points]]
    most = int(source.num_views.max())
    views, valid = several_views(rng.fold_in(key, 1), source.num_views[points], num_views, most)
    # In blocks, since sampling reads whole images where the views are images.
    blocks = zip(points.split(_BLOCK), views.split(_BLOCK), strict=True)
    sampled = torch.cat([source.sample(*block, size) for block in blocks]).movedim(2, -1)
    patches = (stretch_contrast(sampled, 3) * 255).round().to(torch.uint8)
    patches[~valid] = WHITE
    cells = torch.nn.functional.pad(patches, (0, 0, 0, GAP, 0, GAP), value=WHITE)
    rows = -(-len(patches) // columns)
    blank = torch.full((rows * columns - len(patches), *cells.shape[1:]), WHITE, dtype=torch.uint8, device=cells.device)
    cells = torch.cat([cells, blank])
    side, channels = cells.shape[-2:]
    strips = cells.transpose(1, 2).reshape(columns, rows * side, num_views * side, channels)
    strips = torch.nn.functional.pad(strips, (0, 0, 0, 6 * GAP), value=WHITE)
    sheet = strips.transpose(0, 1).reshape(rows * side, -1, channels).cpu().numpy()
    return sheet[..., 0] if channels == 1 else sheet


def stretch_contrast(patches: torch.Tensor, axes: int = 2) -> torch.Tensor:
    """Each patch with its darkest pixel at 0 and its brightest at 1; the last ``axes`` axes are its pixels.

    Shape:
        (..., H, W) or, with 3 axes, (..., H, W, C) -> the same.
    """
    of_patch = tuple(range(-axes, 0))
    low, high = patches.amin(of_patch, keepdim=True), patches.amax(of_patch, keepdim=True)
    return (patches - low) / (high - low).clamp(min=1e-3)

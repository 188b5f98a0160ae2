"""Describe the patches of a store in chunks."""

from __future__ import annotations

import torch
from torch import Tensor
from tqdm import tqdm

from patchprint.benchmarks._benchmark import Run
from patchprint.common.errors import UserError
from patchprint.data import PatchSource, PatchStore, open_source

_CHUNK = 1024  # patches that are cut at once: few enough to stay near the processor, enough to fill a GPU


def describe(run: Run, source: PatchSource, points: Tensor, views: Tensor) -> Tensor:
    """Describe patches in chunks: points (U,), views (U,) -> (U, D)."""
    size = run.patch_model.patch_side(_stored_side(source))
    chunks = list(zip(points.split(_CHUNK), views.split(_CHUNK), strict=True))
    descriptors = []
    for some_points, some_views in tqdm(chunks, desc=f"patches of {run.data[0].name}", disable=None):
        patches = source.sample(some_points.to(source.device), some_views[:, None].to(source.device), size)
        descriptors.append(run.patch_model.describe_patches(patches[:, 0]))
    return torch.cat(descriptors)


def open_for(run: Run, split: str) -> PatchSource:
    """The patches in ``--data``, cut at the model's patch scale where they are cut out of images."""
    for path in run.data:
        if not path.is_dir():
            raise UserError(f"{path} is not a folder; give --data a store made by patchprint data build")
    source = open_source(run.data, run.device, patch_scale=run.patch_model.patch_scale)
    stored = _stored_side(source)
    if stored is not None and stored < (wanted := run.patch_model.patch_side(stored)):
        raise UserError(f"{run.model.info.name} needs patches of {wanted} pixels, {run.data_name} holds {stored}")
    chosen = source if split == "all" else source.split(split)
    if chosen.num_points == 0:
        raise UserError(f"the split {split!r} of {run.data_name} is empty; choose another --split")
    return chosen


def _stored_side(source: PatchSource) -> int | None:
    """Pixels along the side of stored patches; None where patches are cut out of images."""
    return source.facts["size"] if isinstance(source, PatchStore) else None

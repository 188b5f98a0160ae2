"""Patches of a store, described in chunks."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from patchprint.benchmarks.setup import Setup
from patchprint.errors import UserError
from patchprint.patches import PatchSource, PatchStore, open_source

_CHUNK = 1024  # patches that are cut at once: few enough to stay near the processor, enough to fill a GPU


def describe(setup: Setup, source: PatchSource, points: Tensor, views: Tensor) -> Tensor:
    """Prints of patches in chunks: points (U,), views (U,) -> (U, D)."""
    size = setup.describer.input_size
    chunks = list(zip(points.split(_CHUNK), views.split(_CHUNK), strict=True))
    descriptors = []
    for some_points, some_views in tqdm(chunks, desc=f"patches of {setup.data.name}", disable=None):
        patches = source.sample(some_points.to(source.device), some_views[:, None].to(source.device), size)
        descriptors.append(setup.describer.describe_patches(patches[:, 0]))
    return torch.cat(descriptors)


def open_for(setup: Setup, split: str) -> PatchSource:
    """The patches in ``--data``, cut at the model's patch scale where they are cut out of photos."""
    for name in str(setup.data).split(","):
        if not Path(name).is_dir():
            raise UserError(f"{name} is not a folder; give --data a store made by patchprint data build")
    source = open_source(str(setup.data), setup.device, patch_scale=setup.describer.patch_scale)
    stored = source.facts["size"] if isinstance(source, PatchStore) else None
    if stored is not None and stored < setup.describer.input_size:
        raise UserError(
            f"{setup.describer.id.name} needs patches of {setup.describer.input_size} pixels, {setup.data} holds {stored}"
        )
    chosen = source if split == "all" else source.split(split)
    if chosen.num_points == 0:
        raise UserError(f"the split {split!r} of {setup.data} is empty; choose another --split")
    return chosen

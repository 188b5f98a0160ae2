"""Stored patches and labeled images of a benchmark, described in chunks."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from tqdm import tqdm

from patchprint.benchmarks._benchmark import Run
from patchprint.common.errors import UserError
from patchprint.data import PatchSource, PatchStore, open_source
from patchprint.data.builders.labeled_images import cached_store
from patchprint.data.image_store import ImageStore

Source = TypeVar("Source", bound=PatchSource)
_PATCHES = 1024  # that are cut at once: few enough to stay near the processor, enough to fill a GPU
_IMAGES = 256  # that are read at once


def open_patches(run: Run, split: str) -> PatchSource:
    """Open the patches in ``--data``; if they are cut from images, at the patch scale of the model."""
    for path in run.data:
        if not path.is_dir():
            raise UserError(f"{path} is not a folder; give --data a store made by patchprint data build")
    source = open_source(run.data, run.device, patch_scale=run.patch_model.patch_scale)
    stored = _stored_side(source)
    if stored is not None and stored < (wanted := run.patch_model.patch_side(stored)):
        raise UserError(f"{run.model.info.name} needs patches of {wanted} pixels, {run.data_name} holds {stored}")
    return part_of(source, split, run.data_name)


def open_images(run: Run) -> ImageStore:
    """Open the images in ``--data``: a store, or a published archive or folder, converted once to a store in the cache."""
    return ImageStore.open(cached_store(run.folder), run.device)


def part_of(source: Source, split: str, name: str) -> Source:
    """Return the points of one part of the data called ``name``, or all."""
    chosen = source if split == "all" else source.split(split)
    if chosen.num_points == 0:
        raise UserError(f"the split {split!r} of {name} is empty; choose another --split")
    return chosen


def describe_patches(run: Run, source: PatchSource, points: Tensor, views: Tensor) -> Tensor:
    """Describe patches in chunks: points (U,), views (U,) -> (U, D)."""
    size = run.patch_model.patch_side(_stored_side(source))

    def describe(points: Tensor, views: Tensor) -> Tensor:
        patches = source.sample(points.to(source.device), views[:, None].to(source.device), size)
        return run.patch_model.describe_patches(patches[:, 0])

    return _in_chunks(describe, points, views, _PATCHES, f"patches of {run.data[0].name}")


def for_every_image(run: Run, store: ImageStore, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply ``function`` to the central squares of all images, in the order of ``store.all_views``.

    Shape:
        function: (N, 3, S, S) -> (N, D), S the model's input size; the whole: (M, D) on the CPU.
    """

    def apply(points: Tensor, views: Tensor) -> Tensor:
        return function(store.sample(points, views[:, None], run.model.input_size)[:, 0]).cpu()

    return _in_chunks(apply, *store.all_views(), _IMAGES, f"images of {run.folder.name}")


def _in_chunks(
    function: Callable[[Tensor, Tensor], Tensor], points: Tensor, views: Tensor, size: int, title: str
) -> Tensor:
    chunks = list(zip(points.split(size), views.split(size), strict=True))
    return torch.cat([function(*chunk) for chunk in tqdm(chunks, desc=title, disable=None)])


def _stored_side(source: PatchSource) -> int | None:
    """Return the side of stored patches in pixels; None if patches are cut from images."""
    return source.facts["size"] if isinstance(source, PatchStore) else None

"""Labeled images, and their descriptors by a model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from tqdm import tqdm

from patchprint.benchmarks._benchmark import Run
from patchprint.common.errors import UserError
from patchprint.data import manifest
from patchprint.data.image_store import ImageStore

_CHUNK = 256  # images that are read at once


def open_images(run: Run) -> ImageStore:
    """The images in ``--data``: a store, or a published archive or folder, of which a store is made once in the cache."""
    folder = run.folder
    if not (folder / manifest.NAME).is_file():
        # Reading archives needs OpenCV, reading a store does not.
        from patchprint.data.builders.labeled_images import cached_store

        folder = cached_store(folder)
    return ImageStore.open(folder, run.device)


def part_of(store: ImageStore, split: str) -> ImageStore:
    """The classes of one part, or all."""
    chosen = store if split == "all" else store.split(split)
    if chosen.num_points == 0:
        raise UserError(f"the split {split!r} of {store.folder} is empty; choose another --split")
    return chosen


def for_every_image(run: Run, store: ImageStore, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply ``function`` to the central squares of all images, in the order of ``store.all_views``.

    Shape:
        function: (N, 3, S, S) -> (N, D), S the model's input size; the whole: (M, D) on the CPU.
    """
    points, views = store.all_views()
    chunks = list(zip(points.split(_CHUNK), views.split(_CHUNK), strict=True))
    parts = []
    for some_points, some_views in tqdm(chunks, desc=f"images of {run.folder.name}", disable=None):
        squares = store.sample(some_points, some_views[:, None], run.model.input_size)[:, 0]
        parts.append(function(squares).cpu())
    return torch.cat(parts)

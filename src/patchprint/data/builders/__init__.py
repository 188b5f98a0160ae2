"""Where patches come from: one builder for each kind of data, which writes a store.

A builder is a function ``build(src, out, ..., force=False)``; its further parameters, with their types and the ``Args:`` of
its docstring, are the flags of ``patchprint data build KIND``.
"""

from collections.abc import Callable
from typing import Any

from patchprint.common.registry import LazyRegistry

BUILDERS: LazyRegistry[Callable[..., Any]] = LazyRegistry(
    "kind of data",
    __name__,
    {
        "colmap": "colmap_tracks:build",
        "photos": "image_folder:build",
        "homographies": "homographies:build",
        "planes": "planes:build",
        "unlabeled": "unlabeled:build",
        "phototour": "phototour:build",
        "hpatches": "hpatches_patches:build",
        "hpatches-sequences": "hpatches_sequences:build",
        "rome": "rome_patches:build",
        "images": "labeled_images:build",
    },
)

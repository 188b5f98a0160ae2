"""Where patches come from: one builder for each kind of data, which writes a store.

A builder is a module with ``build(src, out, ..., force=False)``; its further parameters, with their types and the ``Args:`` of
its docstring, are the flags of ``patchprint data build KIND``.
"""

import importlib
from collections.abc import Callable
from typing import Any

from patchprint.common.registry import Registry

BUILDERS: Registry[str] = Registry(
    "kind of data",
    {
        "colmap": "colmap_tracks",
        "photos": "image_folder",
        "homographies": "homographies",
        "unlabeled": "unlabeled",
        "phototour": "phototour",
        "hpatches": "hpatches_patches",
        "hpatches-sequences": "hpatches_sequences",
        "rome": "rome_patches",
        "images": "labeled_images",
    },
)


def builder(kind: str) -> Callable[..., Any]:
    """The function that builds a store of this kind; its module is imported only here."""
    return importlib.import_module(f"{__name__}.{BUILDERS[kind]}").build

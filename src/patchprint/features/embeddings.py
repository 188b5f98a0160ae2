"""Descriptors of whole images on disk: one ``.npz`` for a folder of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common import files
from patchprint.common.errors import UserError, parsing
from patchprint.common.progress import note, progress, skip_or_raise
from patchprint.common.safe_io import read_npz
from patchprint.common.types import ModelId
from patchprint.features.image_model import ImageModel, load_image_model
from patchprint.features.model import ModelLike
from patchprint.interop.images import list_images, read_color

SUFFIX = ".npz"
_AT_ONCE = 16  # images that are in memory at full size


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Descriptors of whole images by name, and the model that made them.

    Shape:
        N names, descriptors (N, D) float32, unit length.
    """

    names: list[str]
    descriptors: Tensor
    model: ModelId


def embed_folder(
    images: str | Path,
    model: ModelLike | ImageModel,
    *,
    exif: bool = False,
    report: Callable[[str], None] = note,
    strict: bool = False,
) -> Embeddings:
    """Describe all images below a folder as wholes; unreadable ones are reported and left out, or with ``strict`` an error."""
    folder, describer = Path(images), load_image_model(model)
    names = list_images(folder)
    kept: list[str] = []
    parts = []
    for start in progress(range(0, len(names), _AT_ONCE), "describing whole images", "batch"):
        readable = {}
        for name in names[start : start + _AT_ONCE]:
            try:
                readable[name] = read_color(folder / name, exif)
            except (UserError, OSError) as error:
                skip_or_raise(error, strict, report)
        kept += readable
        parts.append(describer.describe_images(list(readable.values())))
    if not kept:
        raise UserError(f"none of the {len(names)} images in {folder} could be read")
    return Embeddings(kept, torch.cat(parts), describer.id)


def save(embeddings: Embeddings, path: str | Path) -> None:
    """Write a file that numpy reads: ``names`` (N,), ``descriptors`` (N, D), ``model`` (name and checksum)."""
    with files.atomic_file(path) as temporary, open(temporary, "wb") as stream:
        np.savez(
            stream,
            names=np.array(embeddings.names),
            descriptors=embeddings.descriptors.cpu().numpy(),
            model=np.array([embeddings.model.name, embeddings.model.sha256]),
        )


def load(path: str | Path) -> Embeddings:
    """Read what `save` wrote."""
    what = "a file of embeddings of patchprint"
    values = read_npz(path, what)
    with parsing(path, what):
        name, sha256 = (str(word) for word in values["model"])
        names = [str(each) for each in values["names"].tolist()]
        descriptors = torch.from_numpy(values["descriptors"])
        if descriptors.ndim != 2 or len(descriptors) != len(names):
            raise UserError(f"{path} is damaged: {len(names)} names, descriptors of shape {tuple(descriptors.shape)}")
        return Embeddings(names, descriptors, ModelId(name, sha256))

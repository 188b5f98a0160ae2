"""Models of whole images, which describe the central square of each, and their descriptors of a folder on disk (``.npz``)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.progress import note, progress, skip_or_raise
from patchprint.common.types import ModelId
from patchprint.features.model import Model, ModelBase, ModelLike, patch_model, read_model
from patchprint.interop.images import ImageLike, list_images, read_color
from patchprint.networks import PatchNetwork, engines
from patchprint.networks.embedding import EmbeddingNetwork

SUFFIX = ".npz"  # of embeddings
_IMAGES = 64  # squares in memory at a time
_AT_ONCE = 16  # images in memory at full size


class ImageModel(ModelBase):
    """A descriptor of whole images, of the central square of each, as in training; made by `load_image_model`."""

    def __init__(self, network: EmbeddingNetwork) -> None:
        self.network = network
        self.info = network.info

    def describe_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Describe images, each a file or an array (H, W) or (H, W, 3) in RGB.

        Shape:
            N images of any sizes -> (N, dim) float32, unit length, on the CPU.
        """
        from patchprint.data.image_store import central_square  # only here: it imports all stores

        parts = [torch.zeros(0, self.dim)]
        for start in range(0, len(images), _IMAGES):
            squares = [central_square(read_color(image), self.input_size) for image in images[start : start + _IMAGES]]
            parts.append(self.network.describe(torch.stack(squares)))
        return torch.cat(parts)

    def raw(self, squares: Tensor) -> Tensor:
        """Compute vectors before they are brought to unit length.

        Shape:
            squares (N, 3, S, S) uint8 or float in [0, 1], S the input size -> (N, dim) float32, on their device.
        """
        return self.network.raw(squares)

    @torch.no_grad()
    def features(self, squares: Tensor) -> Tensor:
        """Compute the features of the backbone: (N, 3, S, S) -> (N, F) float32, on the device of ``squares``."""
        device, network = next(self.network.parameters()).device, self.network.in_evaluation()
        parts = [network.features(part.to(device)).float() for part in squares.split(_IMAGES)]
        return torch.cat(parts).to(squares.device)


def load_image_model(model: ModelLike | ImageModel, device: str | torch.device = "cpu") -> ImageModel:
    """Load a model of whole images: weights of an embedding network by file, the network itself, or a loaded model.

    Raises:
        UserError: for what is no model, and for a model of patches.
    """
    found, _ = read_model(model, device)
    loaded = _image_model(found)
    if loaded is None:
        raise UserError(f"{found.info.name} describes patches; give the weights of an embedding network")
    return loaded


def load_any(
    model: ModelLike | ImageModel, device: str | torch.device = "cpu", *, engine: str = engines.AUTO
) -> Model | ImageModel:
    """Load a model of either kind, for commands that take both."""
    found, engine = read_model(model, device, engine)
    return _image_model(found) or patch_model(found, engine)


def _image_model(found: PatchNetwork | ModelBase) -> ImageModel | None:
    if isinstance(found, ImageModel):
        return found
    return ImageModel(found) if isinstance(found, EmbeddingNetwork) else None


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


def save_embeddings(embeddings: Embeddings, path: str | Path) -> None:
    """Write a file that numpy reads: ``names`` (N,), ``descriptors`` (N, D), ``model`` (name and checksum)."""
    with files.atomic_file(path) as temporary, open(temporary, "wb") as stream:
        np.savez(
            stream,
            names=np.array(embeddings.names),
            descriptors=embeddings.descriptors.cpu().numpy(),
            model=np.array([embeddings.model.name, embeddings.model.sha256]),
        )

"""COLMAP databases from features and matches, one image in memory at a time."""

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.types import Features, Matches
from patchprint.interop import colmap_database
from patchprint.interop.hloc import descriptor_vectors
from patchprint.interop.images import is_url
from patchprint.storage.feature_files import FeatureFolder

Key = TypeVar("Key")
Whole = TypeVar("Whole")
Part = TypeVar("Part")


def check_images(features: Mapping[str, Features], images: Path | None = None) -> Path:
    """The folder with the images of ``features``; raises UserError where COLMAP could not use them.

    Args:
        images: the folder that the names are relative to, where the features do not name it.
    """
    from patchprint.interop.colmap_models import pycolmap  # noqa: F401  (says what to install, where it is missing)

    if images is None and isinstance(features, FeatureFolder):
        refuse_url(features.manifest["photos_folder"])
        refuse_exif_rotation(features.manifest["settings"]["exif"])
        images = Path(features.manifest["photos_folder"])
    if images is None:
        images = _common_folder(features)
    if not images.is_dir():
        raise UserError(f"{images} is not there any more; COLMAP needs the images themselves for the cameras")
    return images


def _common_folder(features: Mapping[str, Features]) -> Path:
    """The folder that image names are relative to, from the path that the first features carry."""
    for name, item in itertools.islice(features.items(), 1):
        if item.image_path is not None and item.image_path.as_posix().endswith(f"/{name}"):
            return Path(item.image_path.as_posix().removesuffix(name))
    raise UserError("these features do not say where their images are, which COLMAP needs; describe the images again")


def refuse_url(images: str | Path) -> None:
    """Raise UserError for images in object storage."""
    if is_url(images):
        raise UserError(f"COLMAP reads images from files, and these are at {images}; copy them to a folder")


def refuse_exif_rotation(exif: bool) -> None:
    """Raise UserError for keypoints of images that were rotated by EXIF."""
    if exif:
        raise UserError("COLMAP reads images as they are stored, not rotated by EXIF; describe them without --exif")


def write_database(
    out: str | Path,
    features: Mapping[str, Features],
    matches: Mapping[tuple[str, str], Matches] | None = None,
    images: Path | None = None,
    frames: bool = False,
) -> None:
    """Write a database with cameras, images and keypoints, and with ``matches`` these, verified by COLMAP, else descriptors.

    Args:
        images: folder that the names are relative to, where the features do not name it.
        frames: append scale and angle to the descriptors, for the matcher that ``patchprint export --tool colmap`` writes.
    """
    out, folder = Path(out), check_images(features, images)
    keypoints = View(features, lambda item: item.keypoints)
    # Written in a temporary folder, so that side files of SQLite never appear beside the final name.
    with files.temporary_folder(out) as workshop:
        database = workshop / "database.db"
        descriptors = View(features, partial(_float_vectors, frames=frames)) if matches is None else None
        colmap_database.write_features(database, folder, keypoints, descriptors=descriptors)
        if matches is not None:
            indices = View(matches, lambda found: found.indices.cpu().numpy())
            colmap_database.write_matches(database, indices)
            colmap_database.verify(database)
        with files.atomic_file(out) as temporary:
            shutil.copyfile(database, temporary)


def _float_vectors(item: Features, frames: bool) -> np.ndarray:
    """Descriptors as unit vectors, float32 (N, D) or with scale and angle (N, D + 2); packed bits as signs."""
    vectors = descriptor_vectors(item).astype(np.float32)
    if item.descriptors.dtype == torch.int8:
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)
    columns = [item.keypoints.scale.cpu(), item.keypoints.angle.cpu()] if frames else []
    return np.column_stack([vectors, *columns])


class View(Mapping[Key, Part], Generic[Key, Whole, Part]):
    """``{key: part(source[key]) for key in keys}``, all keys by default, computed on access."""

    def __init__(
        self, source: Mapping[Key, Whole], part: Callable[[Whole], Part], keys: Iterable[Key] | None = None
    ) -> None:
        self._source, self._part = source, part
        self._keys = dict.fromkeys(source if keys is None else keys)

    def __getitem__(self, key: Key) -> Part:
        if key not in self._keys:
            raise KeyError(key)
        return self._part(self._source[key])

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

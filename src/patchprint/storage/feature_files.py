"""Features on disk: one ``.npz`` per image, in a folder with the manifest ``features.json``.

Images have files of their own or share shards (`patchprint.storage.shards`); `FeatureFolder` reads both.
"""

import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import files
from patchprint.common.errors import UserError, parsing
from patchprint.common.safe_io import read_json, read_npz, safe_join
from patchprint.common.types import Features, Keypoints, ModelId
from patchprint.storage.shards import SUFFIX, Shards

MANIFEST = "features.json"
PER_SHARD = "photos_per_shard"  # in the manifest; without it every image has a file of its own
VECTORS = "vectors.npz"  # of whole images (`patchprint.storage.image_vectors`)
MADE_BY = "patchprint describe"
WHAT = "a features file of patchprint"


def save_features(features: Features, path: str | Path) -> None:
    """Write the features of one image atomically."""
    with files.atomic_file(path) as temporary:
        temporary.write_bytes(to_bytes(features))


def to_bytes(features: Features) -> bytes:
    """The bytes that `save_features` writes."""
    values: dict[str, Any] = features.keypoints.to_arrays()
    values["descriptors"] = features.descriptors.cpu().numpy()
    values["image_size"] = np.array(features.image_size)
    values["image_path"] = np.array("" if features.image_path is None else str(features.image_path))
    values["model"] = np.array([features.model.name, features.model.sha256])
    values["ratio"] = np.array(np.nan if features.ratio is None else features.ratio)
    stream = io.BytesIO()
    np.savez(stream, **values)
    return stream.getvalue()


def load_features(path: str | Path, data: bytes | None = None) -> Features:
    """Read features that `save_features` wrote, from a file or from its ``data``."""
    values = read_npz(path, WHAT, data)
    with parsing(path, WHAT):
        name, sha256 = (str(word) for word in values["model"])
        image = str(values["image_path"])
        width, height = (int(side) for side in values["image_size"])
        ratio = float(values["ratio"])
        return Features(
            Keypoints.from_arrays(values),
            torch.from_numpy(values["descriptors"]),
            (width, height),
            Path(image) if image else None,
            ModelId(name, sha256),
            None if math.isnan(ratio) else ratio,
        ).validate()


class FeatureFolder(Mapping[str, Features]):
    """Features by image name, read from a folder on access."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / MANIFEST).is_file():
            raise UserError(f"{self.folder} holds no features ({MANIFEST}); make them with patchprint describe")
        path = self.folder / MANIFEST
        self.manifest: dict[str, Any] = read_json(path, "the list of a folder of features")
        names, settings, size = (self.manifest.get(name) for name in ("photos", "settings", PER_SHARD))
        if not isinstance(names, list) or not isinstance(settings, dict) or not isinstance(size, int | None):
            raise UserError(f"{path} is damaged: it lists no images or no settings; describe the images again")
        for name in names:
            safe_join(self.folder, name, path)
        self.shards = None if size is None else Shards(self.folder, names, size)
        self._in_shard = self.shards.all_members() if self.shards else set()
        self.names = [name for name in names if name in self._in_shard or self._alone(name).is_file()]
        self._known = set(self.names)

    @property
    def left_out(self) -> list[str]:
        """Names of the images that could not be described."""
        return [name for name in self.manifest["photos"] if name not in self]

    def contents(self, name: str) -> bytes:
        """The bytes that `save_features` wrote for an image."""
        return self.shards.read(name) if self.shards and name in self._in_shard else self._alone(name).read_bytes()

    def __getitem__(self, name: str) -> Features:
        if name not in self._known:
            raise KeyError(name)
        return load_features(
            self._alone(name), self.shards.read(name) if self.shards and name in self._in_shard else None
        )

    def __contains__(self, name: object) -> bool:
        return name in self._known  # without reading the file

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _alone(self, name: str) -> Path:
        return self.folder / (name + SUFFIX)

"""Global image vectors (VLAD) pooled from local descriptors, cached beside the features."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common import files
from patchprint.common.errors import UserError, parsing
from patchprint.common.progress import progress
from patchprint.common.safe_io import read_npz
from patchprint.common.types import Features
from patchprint.ops import pooling
from patchprint.ops.pooling import Pooling
from patchprint.storage.feature_files import VECTORS, FeatureFolder

_WHAT = "a file of image vectors by patchprint"


@dataclass(frozen=True, eq=False)
class ImageVectors:
    """Global vectors of images, and the pooling that computes those of further images.

    Shape:
        vectors (I, K) float32, row i of the image ``names[i]``.
    """

    names: list[str]
    vectors: Tensor
    pooling: Pooling

    def rows(self, names: list[str]) -> list[int]:
        number = {name: row for row, name in enumerate(self.names)}
        return [number[name] for name in names]


def load_or_compute(features: Mapping[str, Features], seed: int = 0, keep: bool = True) -> ImageVectors:
    """Return the cached vectors of all images, or compute them and, with ``keep``, cache them beside the features."""
    kept = features.folder / VECTORS if isinstance(features, FeatureFolder) else None
    if kept is not None and kept.is_file():
        with contextlib.suppress(UserError):  # of other images, or damaged: computed again
            return _read(kept, list(features), seed)
    names = list(features)

    def read(name: str) -> Tensor:
        return features[name].descriptors

    pool = pooling.learn_pooling(names, read, seed)
    made = ImageVectors(names, torch.stack([pool(read(name)) for name in progress(names, "pooling", "image")]), pool)
    if keep and kept is not None:
        with contextlib.suppress(PermissionError):  # a read-only folder
            _write(kept, made, seed)
    return made


def _write(path: Path, made: ImageVectors, seed: int) -> None:
    values = {"names": np.array(made.names), "vectors": made.vectors.numpy(), "seed": np.array(seed)}
    values["centers"] = made.pooling.centers.numpy()
    if made.pooling.directions is not None:
        values["directions"] = made.pooling.directions.numpy()
    with files.atomic_file(path) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, **values)  # type: ignore[arg-type]


def _read(path: Path, names: list[str], seed: int) -> ImageVectors:
    values = read_npz(path, _WHAT)
    with parsing(path, _WHAT):
        if values["names"].tolist() != names or int(values["seed"]) != seed or len(values["vectors"]) != len(names):
            raise UserError(f"{path} is of other images")
        if values["vectors"].ndim != 2 or values["vectors"].dtype != np.float32 or values["centers"].ndim != 2:
            raise UserError(f"{path} holds no vectors")
        directions = torch.from_numpy(values["directions"]) if "directions" in values else None
        known = Pooling(torch.from_numpy(values["centers"]), directions)
        return ImageVectors(names, torch.from_numpy(values["vectors"]), known)

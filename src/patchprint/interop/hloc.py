"""hloc: ``features.h5`` and ``matches.h5`` as hloc writes and reads them.

Features: one group per image, named as the image, with ``keypoints`` (N, 2) (center of the top-left pixel at (0, 0), as
ours; hloc adds the half pixel when it writes a COLMAP database), ``descriptors`` (D, N), ``scores`` (N,), ``image_size`` (2,);
we add ``scales``, ``angles``, ``affine``, and as attributes the model, its ratio and whether the vectors are bits, all of which
hloc leaves alone. Matches: group ``NAME0/NAME1`` with slashes inside names written as dashes, ``matches0`` (N0,) with -1 for
none, ``matching_scores0`` (N0,). Both may stand in one file.
"""

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common.errors import UserError, parsing, require
from patchprint.common.files import atomic_file
from patchprint.common.types import Features, Keypoints, Matches, ModelId
from patchprint.interop.images import find_name_problem, is_url
from patchprint.ops.distances import pack_bits, unpack_bits

_KEYPOINTS = {"xy": "keypoints", "scale": "scales", "angle": "angles", "score": "scores", "affine": "affine"}
_IMAGES = "images"  # attribute with the folder of the images
_MOST_PACKED = 1100  # times that gzip, which HDF5 files are packed with, can shrink bytes


def write_features(
    path: str | Path,
    features: Iterable[tuple[str, Features]],
    settings: Mapping[str, Any] | None = None,
    images: str | None = None,
) -> None:
    """Write ``features.h5``: vectors unchanged, so that they match as before, packed bits as signs of unit length.

    ``settings``, how the features were made, and ``images``, the folder of the images, become attributes of the file.
    """
    with _create(path) as store:
        store.attrs.update({name: value for name, value in (settings or {}).items() if value is not None})
        if images is not None:
            store.attrs[_IMAGES] = np.bytes_(images.encode())
        for name, item in features:
            _write_group(store, name, item)


def read_features(path: str | Path) -> Iterator[tuple[str, Features]]:
    """Yield the features of an hloc file by image name; files without scales and angles get 1 and 0."""
    with parsing(path, "a features file in hloc's layout"), _open(path) as store:
        names: list[str] = []
        store.visititems(lambda name, item: names.append(name) if _is_features(item) else None)
        if not names:
            raise UserError(f"{path} holds no features in hloc's layout (groups with keypoints, descriptors)")
        images = _attribute(store, _IMAGES, b"").decode()
        for name in names:
            problem = find_name_problem(name)
            if problem is not None:
                raise UserError(f"{path}: the name {name!r} in it has {problem}")
            place = Path(images) / name if images and not is_url(images) else None
            yield name, _read_group(store[name], place)


def write_matches(
    path: str | Path,
    matches: Mapping[tuple[str, str], Matches],
    counts: Mapping[str, int],
    features: Mapping[str, Features] | None = None,
) -> None:
    """Write ``matches.h5``; ``counts`` is the number of keypoints by image. Rejected matches are left out.

    With ``features`` they stand in the same file, which is then ``features.h5`` as well.
    """
    with _create(path) as store:
        for name, item in (features or {}).items():
            _write_group(store, name, item)
        for (first, second), found in matches.items():
            indices, distance = found.indices.cpu().numpy(), found.distance.cpu().numpy()
            if found.inliers is not None:
                kept = found.inliers.cpu().numpy()
                indices, distance = indices[kept], distance[kept]
            target = np.full(counts[first], -1, np.int32)
            score = np.zeros(counts[first], np.float16)
            target[indices[:, 0]] = indices[:, 1]
            score[indices[:, 0]] = 1 / (1 + distance)
            group = store.create_group(pair_name(first, second))
            group["matches0"], group["matching_scores0"] = target, score


def read_matches(path: str | Path, first: str, second: str) -> np.ndarray:
    """Read the matches of two images as (M, 2) indices, in whichever order the file has them."""
    with parsing(path, "a matches file in hloc's layout"), _open(path) as store:
        for one, two, flip in ((first, second, False), (second, first, True)):
            if pair_name(one, two) in store:
                target = _read(store[pair_name(one, two)], "matches0")
                pairs = np.stack([np.flatnonzero(target >= 0), target[target >= 0]], 1).astype(np.int64)
                return pairs[:, ::-1] if flip else pairs
    raise UserError(f"{path} has no matches of {first} and {second}")


def pair_name(first: str, second: str) -> str:
    return "/".join(name.replace("/", "-") for name in (first, second))


def _write_group(store: Any, name: str, item: Features) -> None:
    """Write one image of ``features.h5``."""
    group, keypoints = store.create_group(name), item.keypoints
    arrays = keypoints.to_arrays()
    for ours, values in {"score": arrays["scale"], **arrays}.items():
        group[_KEYPOINTS[ours]] = values
    group["descriptors"] = descriptor_vectors(item).T
    group["image_size"] = np.array(item.image_size)
    group.attrs["bits"] = item.is_binary
    for name, text in (("model", item.model.name), ("sha256", item.model.sha256)):
        group.attrs[name] = np.bytes_(text.encode())
    if item.ratio is not None:
        group.attrs["ratio"] = item.ratio


def descriptor_vectors(item: Features) -> np.ndarray:
    """Descriptors as hloc compares them, (N, D): vectors as they are, packed bits as signs of unit length."""
    descriptors = item.descriptors.cpu()
    if item.is_binary:
        bits = unpack_bits(descriptors).numpy().astype(np.float16)
        return (bits * 2 - 1) / np.float16(max(1, bits.shape[1]) ** 0.5)
    return descriptors.numpy()


class _Sink(io.FileIO):
    """A file for HDF5, which may crash when a write fails: writes always succeed here, ``error`` is the first failure."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        left = memoryview(data)
        while len(left) and self.error is None:
            try:
                left = left[super().write(left) :]
            except OSError as error:
                self.error = error
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0


@contextlib.contextmanager
def _create(path: str | Path) -> Iterator[Any]:
    """Create an HDF5 file atomically."""
    h5py = require("h5py", extra="sfm")
    with atomic_file(path) as temporary, _Sink(temporary, "r+") as sink:
        try:
            with h5py.File(sink, "w") as store:
                yield store
        finally:
            if sink.error is not None:
                raise sink.error  # whatever HDF5 made of it


def _read_group(group: Any, place: Path | None) -> Features:
    """One image of ``features.h5``; ``place`` is its file."""
    found = {ours: _read(group, name) for ours, name in _KEYPOINTS.items() if name in group}
    keypoints = Keypoints.from_arrays({"scale": np.array(1.0), "angle": np.array(0.0), **found})
    descriptors = torch.from_numpy(np.ascontiguousarray(_read(group, "descriptors").T))
    if _attribute(group, "bits", False):
        descriptors = pack_bits(descriptors.float())
    width, height = (int(side) for side in _read(group, "image_size"))
    model = ModelId(
        *(_attribute(group, name, text).decode() for name, text in (("model", b"unknown"), ("sha256", b"")))
    )
    ratio = _attribute(group, "ratio", None)
    ratio = None if ratio is None else float(ratio)
    return Features(keypoints, descriptors, (width, height), place, model, ratio).validate()


def _read(group: Any, name: str) -> np.ndarray:
    """Read an array; links, external data and sizes beyond what the stored bytes can unpack to are refused."""
    h5py = require("h5py", extra="sfm")
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise UserError(f"{name} in it is a link")
    data = group[name]
    if data.external is not None or data.is_virtual:
        raise UserError(f"{name} in it lies in another file")
    _refuse_any_length(name, data.dtype)
    if data.nbytes > _MOST_PACKED * data.id.get_storage_size():
        raise UserError(f"{name} in it announces {data.nbytes} bytes, but stores {data.id.get_storage_size()}")
    return data[()]


def _attribute(group: Any, name: str, default: Any) -> Any:
    if name not in group.attrs:
        return default
    _refuse_any_length(name, group.attrs.get_id(name).dtype)
    return group.attrs[name]


def _refuse_any_length(name: str, kind: np.dtype) -> None:
    """Refuse variable-length values: a corrupt heap makes libhdf5 hang."""
    if kind.hasobject:
        raise UserError(f"{name} in it has no fixed length, as older versions wrote it; describe the images again")


def _open(path: str | Path) -> Any:
    h5py = require("h5py", extra="sfm")
    if not Path(path).is_file():
        raise UserError(f"{path} is not there; expected an HDF5 file")
    with parsing(path, "an HDF5 file"):
        return h5py.File(path, "r")


def _is_features(item: Any) -> bool:
    return hasattr(item, "keys") and "keypoints" in item and "descriptors" in item

"""Files of a TrackStore: encoded images in one file, tracks as memory-mapped arrays, names as text.

``images.bin`` holds the images as they were encoded, one after the other; ``image_offset.npy`` (N + 1,) says where each
begins, ``image_size.npy`` (N, 2) its width and height. Nothing is decoded, and no track is read, before it is asked for.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from patchprint.common import files
from patchprint.common.errors import UserError, parsing
from patchprint.common.progress import progress
from patchprint.data import manifest, splits
from patchprint.interop.images import decode_gray, encode_image

if TYPE_CHECKING:
    from patchprint.data.tracks import Tracks

KIND = "tracks"
_JPEG_QUALITIES = (92, 85, 78, 70, 60, 50, 40)


@dataclass(frozen=True)
class Names:
    """Names of images and scenes."""

    images: list[str]
    scenes: list[str]

    @staticmethod
    def numbered(num_images: int, num_scenes: int) -> Names:
        return Names([f"{i:06d}.png" for i in range(num_images)], [f"scene{i}" for i in range(num_scenes)])


@dataclass(frozen=True, eq=False)
class StoredTracks:
    """An opened folder; arrays are memory-mapped."""

    folder: Path
    names: Names
    patch_scale: float
    sizes: np.ndarray
    offset: np.ndarray
    arrays: dict[str, np.ndarray]

    def image(self, number: int) -> np.ndarray:
        """Decode an image, (H, W) uint8."""
        with open(self.folder / "images.bin", "rb") as stream:
            stream.seek(int(self.offset[number]))
            data = stream.read(int(self.offset[number + 1] - self.offset[number]))
        image = decode_gray(data, f"image {self.names.images[number]} of {self.folder}")
        if image.shape != (self.sizes[number, 1], self.sizes[number, 0]):
            raise UserError(f"image {self.names.images[number]} of {self.folder} does not have the recorded size")
        return image


def check_numbers(patch_scale: float = 12.0, max_mb: float | None = None, **counts: int) -> None:
    """Raise UserError where `write` would, before the tracks are made, and where one of ``counts`` is below 1."""
    for name, count in counts.items():
        if count < 1:
            raise UserError(f"--{name.replace('_', '-')} is {count}; it must be at least 1")
    limits = {"patch-scale": (patch_scale, manifest.LARGEST_SCALE), "max-mb": (max_mb, sys.float_info.max)}
    for name, (value, most) in limits.items():
        if value is not None and not 0 < value <= most:
            raise UserError(f"--{name} is {value:g}; it must be a number above 0, and at most {most:g}")


def write(
    folder: str | Path,
    images: Iterable[bytes],
    tracks: Tracks,
    names: Names,
    *,
    patch_scale: float = 12.0,
    max_mb: float | None = None,
    facts: dict[str, Any] | None = None,
    force: bool = False,
) -> None:
    """Write a store of encoded images and their tracks; without a given split the points are split by region.

    Every image is decoded once, so that a damaged one is found now. With ``max_mb``, images are encoded again as gray JPEG of
    falling quality until all of them together are small enough.
    """
    check_numbers(patch_scale, max_mb)
    tracks.check(names.images)
    broken = [name for name in (*names.images, *names.scenes) if "\n" in name]
    if broken:
        raise UserError(f"the name {broken[0]!r} has a line break, which lists of names cannot hold; rename it")
    part = splits.by_region(tracks) if tracks.part is None else tracks.part
    with files.atomic_folder(folder, manifest.MADE_BY, force) as temporary:
        sizes, offset = _write_images(temporary / "images.bin", images, names.images)
        if max_mb is not None:
            offset = _shrink_images(temporary, offset, names.images, max_mb)
        _refuse_outside(tracks, sizes, names.images)
        arrays = {**vars(tracks), "image_size": sizes, "image_offset": offset, "part": part}
        manifest.save(temporary, {name: values for name, values in arrays.items() if values is not None})
        for name, lines in (("image_names.txt", names.images), ("scene_names.txt", names.scenes)):
            (temporary / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
        counts = {"photos": len(sizes), "points": tracks.num_points, "views": len(tracks.point), "scenes": names.scenes}
        counts |= {**splits.counts(part), "patch_scale": patch_scale}
        manifest.write(temporary, KIND, {**counts, **(facts or {})})


def read(folder: str | Path) -> StoredTracks:
    """Open a folder without reading its images or tracks."""
    folder = Path(folder)
    facts = manifest.read(folder, KIND)
    names = Names(_read_names(folder / "image_names.txt"), _read_names(folder / "scene_names.txt"))
    load = functools.partial(manifest.load, folder)
    arrays = {"point": load("point", "iu", (None,)), "scene": load("scene", "iu", (None,), 0, len(names.scenes))}
    views, points = len(arrays["point"]), len(arrays["scene"])
    arrays |= {"image": load("image", "iu", (views,)), "xy": load("xy", "f", (views, 2))}
    arrays |= {"scale": load("scale", "f", (views,)), "angle": load("angle", "f", (views,))}
    for name, kind, shape in (("xyz", "f", (points, 3)), ("part", "iu", (points,))):
        if (folder / f"{name}.npy").exists():
            arrays[name] = load(name, kind, shape)
    sizes = load("image_size", "iu", (len(names.images), 2), 1, 2**31)
    end = (folder / "images.bin").stat().st_size
    offset = np.array(load("image_offset", "iu", (len(sizes) + 1,), 0, end + 1), np.int64)
    if (np.diff(offset) < 0).any():
        raise UserError(f"{folder / 'image_offset.npy'} is damaged: images overlap; {manifest.REMEDY}")
    return StoredTracks(folder, names, float(facts["patch_scale"]), np.array(sizes), offset, arrays)


def _read_names(path: Path) -> list[str]:
    with parsing(path, "a list of names", manifest.REMEDY):
        # Not splitlines, which also breaks lines at characters that file names may have.
        return path.read_bytes().decode().split("\n")[:-1]


def _write_images(path: Path, images: Iterable[bytes], names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    sizes, offset = [], [0]
    with open(path, "wb") as stream:
        for name, data in zip(progress(names, "storing images", "image"), images, strict=True):
            height, width = decode_gray(data, name).shape
            sizes.append((width, height))
            stream.write(data)
            offset.append(offset[-1] + len(data))
    return np.array(sizes, np.int32).reshape(-1, 2), np.array(offset, np.int64)


def _shrink_images(folder: Path, offset: np.ndarray, names: list[str], max_mb: float) -> np.ndarray:
    """Encode the images of ``images.bin`` again until they fit; the new offsets."""
    path, limit = folder / "images.bin", max_mb * 2**20
    if offset[-1] <= limit:
        return offset
    original = path.rename(folder / "original.bin")
    for quality in _JPEG_QUALITIES:
        shrunk = [0]
        with open(original, "rb") as source, open(path, "wb") as target:
            for name, length in zip(names, np.diff(offset), strict=True):
                data = source.read(int(length))
                smaller = min(data, encode_image(decode_gray(data, name), ".jpg", quality), key=len)
                target.write(smaller)
                shrunk.append(shrunk[-1] + len(smaller))
        if shrunk[-1] <= limit:
            original.unlink()
            return np.array(shrunk, np.int64)
    raise UserError(f"{len(names)} images do not fit into --max-mb {max_mb:g}: {shrunk[-1] / 2**20:.1f} MiB remain")


def _refuse_outside(tracks: Tracks, sizes: np.ndarray, names: list[str]) -> None:
    """Refuse keypoints far outside of their images: such an image was resized after its tracks were made."""
    limit = sizes[tracks.image] - 0.5
    outside = ((tracks.xy < -1.5) | (tracks.xy > limit + 1.0)).any(1)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        image = int(tracks.image[row])
        raise UserError(
            f"{names[image]} is {sizes[image, 0]}x{sizes[image, 1]}, but a track lies at ({tracks.xy[row, 0]:.0f}, "
            f"{tracks.xy[row, 1]:.0f}) in it; the image was resized or exchanged after its tracks were made"
        )

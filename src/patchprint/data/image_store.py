"""Store of labeled images: a class takes the place of a point, an image that of a view.

Images keep their size, each in the corner of a box that holds the largest, so that a batch is one gather. What is read by
default is the central square, as in tests of retrieval.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.safe_io import read_json
from patchprint.data import manifest, splits
from patchprint.data.patch_source import ArraySource, warped_grid

BOTH, QUERY, GALLERY = 0, 1, 2
"""Roles of an image in retrieval."""


class ImageStore(ArraySource):
    """Color images with classes, resident on the device where they fit, else memory-mapped.

    Shape:
        label (C,) int64: the class of each point, by its place in ``class_names``; where the parts of a set share classes
        (CIFAR-10), a class is a point in each part. ``images`` (M, 3, B, B) uint8, of which ``size`` (M, 2) int64, height and
        width, says what counts; ``role`` (M,) uint8: BOTH, QUERY or GALLERY; ``names`` are the M files they came from.
    """

    channels = 3
    kind = "images"
    _of_points = (*ArraySource._of_points, "label")
    _others = (*ArraySource._others, "size", "role")

    def __init__(self, folder: Path, facts: dict[str, Any], budget: int) -> None:
        super().__init__(folder, facts, budget)
        self.images = self._array
        count, box = len(self.images), self.images.shape[3]
        self.class_names: list[str] = facts["classes"]
        self.label = self._integers("label", (self.num_points,), 0, len(self.class_names))
        self.role = self._integers("role", (count,), 0, GALLERY + 1)
        self.size = self._integers("size", (count, 2), 1, box + 1)
        if not isinstance(facts.get("size"), int) or not 1 <= facts["size"] <= box:
            raise UserError(f"{folder / manifest.NAME} is damaged: no size of 1 to {box}; {manifest.REMEDY}")

    @staticmethod
    def write(
        folder: str | Path,
        images: Iterable[np.ndarray | None],
        point: np.ndarray,
        point_part: np.ndarray,
        point_label: np.ndarray,
        class_names: Sequence[str],
        names: Sequence[str],
        *,
        role: np.ndarray | None = None,
        force: bool = False,
    ) -> None:
        """Write images one after the other, so that memory stays bounded.

        Shape:
            images: (H, W, 3) uint8 RGB each, of any size, or None for one that is left out; point (M,) which point each is a
            view of; point_part (C,) as in ``splits.PARTS``; point_label (C,) its place in ``class_names``; names: M file names;
            role (M,), BOTH by default.
        """
        with files.atomic_folder(folder, manifest.MADE_BY, force) as temporary:
            size, kept = _write_images(temporary, images, len(point))
            point, names = point[kept], [names[row] for row in kept]
            num_views = np.bincount(point, minlength=len(point_part))
            if (num_views == 0).any():
                empty = class_names[int(point_label[np.argmin(num_views)])]
                raise UserError(f"{folder}: class {empty} has no images")
            arrays = {
                "num_views": num_views,
                "order": np.argsort(point, kind="stable"),
                "label": point_label,
                "part": point_part.astype(np.uint8),
                "size": size,
                "role": np.full(len(point), BOTH, np.uint8) if role is None else role[kept],
            }
            manifest.save(temporary, arrays)
            files.write_json(temporary / "names.json", list(names))
            facts = {
                "points": len(num_views),
                "views": len(point),
                "photos": len(point),
                "size": int(size.min()),
                "single_image_classes": int((num_views == 1).sum()),
                "classes": list(class_names),
                # The whole image is the patch.
                "patch_scale": 1.0,
                **splits.counts(point_part),
            }
            manifest.write(temporary, ImageStore.kind, facts)

    @property
    def names(self) -> list[str]:
        """File name of each image, by its row."""
        names: list[str] = read_json(self.folder / "names.json", "the names of a store of images", list)
        if len(names) != len(self.images) or not all(isinstance(name, str) for name in names):
            path = self.folder / "names.json"
            raise UserError(f"{path} is damaged: it does not name all {len(self.images)} images; {manifest.REMEDY}")
        return names

    def extent(self, points: Tensor, views: Tensor) -> Tensor:
        size = self.size[self.observation(points, views)].flip(-1).float()
        return size / size.amin(-1, keepdim=True)

    def sample(self, points: Tensor, views: Tensor, size: int, warp: Tensor | None = None) -> Tensor:
        """See ``PatchSource.sample``; the plain patch is the central square, and beyond the image its border is repeated."""
        row = self.observation(points, views).reshape(-1)
        # Shrinking by more than half skips pixels; then several readings are averaged.
        finer = max(1, round(self.facts["size"] / size))
        read = read_squares(self._pixels(row), self.size[row], size * finer, warp)
        return F.avg_pool2d(read, finer).reshape(*views.shape, 3, size, size)


def _write_images(folder: Path, images: Iterable[np.ndarray | None], count: int) -> tuple[np.ndarray, list[int]]:
    """Write ``images.npy`` in two passes, since the box is known only after the first.

    Returns:
        Heights and widths (M, 2), and which of the images these are.
    """
    loose, sizes, kept, given = folder / "loose", [], [], 0
    with open(loose, "wb") as stream:
        for given, image in enumerate(images, 1):
            if image is not None:
                kept.append(given - 1)
                sizes.append(image.shape[:2])
                stream.write(np.ascontiguousarray(image.transpose(2, 0, 1), np.uint8).data)
    if given != count:
        raise UserError(f"the list of classes names {count} images, but there are {given}")
    if not kept:
        raise UserError("none of the images could be read")
    size = np.array(sizes, np.int64)
    box = int(size.max())

    def boxed() -> Iterator[np.ndarray]:
        with open(loose, "rb") as stream:
            for height, width in sizes:
                pixels = np.frombuffer(stream.read(3 * height * width), np.uint8).reshape(1, 3, height, width)
                yield np.pad(pixels, ((0, 0), (0, 0), (0, box - height), (0, box - width)))

    manifest.save_blocks(folder, ImageStore.kind, boxed(), len(kept))
    loose.unlink()
    return size, kept


def central_square(image: np.ndarray, size: int) -> Tensor:
    """Cut the largest square in the middle of an image; one larger than ``size`` is smoothed as it shrinks.

    It is read as an `ImageStore` reads it, so that an image has the same descriptor in a store that kept its size.

    Shape:
        (H, W, 3) uint8 -> (3, size, size) float32 in [0, 1].
    """
    pixels = torch.from_numpy(image.astype(np.float32)).permute(2, 0, 1)[None] / 255
    height, width = image.shape[:2]
    shrink = min(1.0, size / min(height, width))
    if shrink < 1:
        height, width = round(height * shrink), round(width * shrink)
        pixels = F.interpolate(pixels, (height, width), mode="bilinear", antialias=True, align_corners=False)
    box = max(height, width)
    boxed = F.pad(pixels, (0, box - width, 0, box - height))
    return read_squares(boxed, torch.tensor([[height, width]]), size)[0]


def read_squares(pixels: Tensor, size: Tensor, side: int, warp: Tensor | None = None) -> Tensor:
    """Read images in their boxes bilinearly: (B, 3, X, X), their size (B, 2), warp (..., 2, 3) -> (B, 3, side, side)."""
    grid = warped_grid(warp, len(pixels), side, pixels.device)
    extent = size.flip(-1).float()[:, None, None]
    place = (extent + grid * extent.amin(-1, keepdim=True)) / 2
    place = torch.minimum(place.clamp(min=0.5), extent - 0.5)
    return F.grid_sample(pixels, place * (2 / pixels.shape[-1]) - 1, mode="bilinear", align_corners=False)

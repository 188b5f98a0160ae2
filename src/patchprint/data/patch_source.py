"""PatchSource: the interface of all stores that training and benchmarks read patches from."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.data import splits
from patchprint.data.label_mining import MinedLabels

_HOST_GB = 8.0


def resident_budget(device: torch.device | str, max_gb: float | None) -> int:
    """Bytes: ``max_gb`` where it is given, else half of what is free on a GPU, or 8 GiB on the host."""
    if max_gb is None and torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(torch.device(device))[0] // 2
    return int((_HOST_GB if max_gb is None else max_gb) * 2**30)


class PatchSource(ABC):
    """3D points with several views each; a view is a patch.

    A source of K patches per point may lie on disk, be cut out of images, or be several sources in one; all of them can be
    split, reduced to some points and moved. ``patch_scale`` is the side of a patch in units of its keypoint's sigma: weights
    are saved with the one they were trained at.

    Shape:
        num_views (N,) int64: how many views point i has; view v of point i is one of range(num_views[i]).
        scene (N,) int64: which scene (sequence, image collection) a point belongs to.
        Both are on ``device``.
    """

    channels: ClassVar[int] = 1
    """Of a patch: 1, or 3 for whole images in color."""

    patch_scale: float
    mined: MinedLabels | None = None
    """DOAP's mined labels, by row of ``observation``; None where none were mined."""

    # Tensors (or None) with one entry for each point, and others that move with the source; subclasses add theirs.
    _of_points: ClassVar[tuple[str, ...]] = ("_num_views", "_scene", "_part")
    _others: ClassVar[tuple[str, ...]] = ("mined",)

    def __init__(self, num_views: Tensor, scene: Tensor, part: Tensor | None, patch_scale: float) -> None:
        self._num_views, self._scene, self._part = num_views, scene, part
        self.patch_scale = patch_scale

    @property
    def device(self) -> torch.device:
        return self._num_views.device

    @property
    def num_points(self) -> int:
        return len(self._num_views)

    @property
    def num_views(self) -> Tensor:
        return self._num_views

    @property
    def scene(self) -> Tensor:
        return self._scene

    def fingerprint(self) -> str:
        """Return a checksum of scenes and view counts that identifies the data wherever they are stored."""
        told = torch.stack([self.num_views, self.scene]).cpu().numpy().astype("<i8")
        return hashlib.sha256(told.tobytes()).hexdigest()

    @property
    @abstractmethod
    def is_resident(self) -> bool:
        """Whether ``sample`` never touches the host, so that it may be compiled and recorded."""

    @property
    def is_divided(self) -> bool:
        """Whether pixels are divided among processes, so that all of them must ``sample`` at the same time."""
        return False

    @property
    def first_image(self) -> Tensor | None:
        """Image of the first view of each point, (N,); None where patches come without their images."""
        return None

    @abstractmethod
    def observation(self, points: Tensor, views: Tensor) -> Tensor:
        """A number for each view that no other view of the source has: its row among the stored patches or tracks.

        Shape:
            points (P,), views (P, K) -> (P, K) int64.
        """

    @abstractmethod
    def sample(self, points: Tensor, views: Tensor, size: int, warp: Tensor | None = None) -> Tensor:
        """Cut patches.

        ``warp`` is how geometric augmentation reaches the pixels: the value of the patch at u in [-1, 1]^2 is read
        from ``warp[..., :2] @ u + warp[..., 2]`` of the plain patch, which may lie outside of it where the source has
        pixels there (images) and repeats the border where it has not (stored patches).

        Shape:
            points (P,) int64, views (P, K) int64, warp (P, K, 2, 3) float or None
            -> float32 in [0, 1], (P, K, channels, size, size), on the source's device.
        """

    def extent(self, points: Tensor, views: Tensor) -> Tensor:
        """How far there are pixels around the middle of each patch, right and down, in half sides of the plain patch.

        Shape:
            points (P,), views (P, K) -> (P, K, 2); ones where the patch is all there is.
        """
        return torch.ones(*views.shape, 2, device=self.device)

    def select(self, points: Tensor) -> Self:
        """The source with only some points, by index or mask; patches and images are shared, not copied."""
        chosen = copy.copy(self)
        for name in self._of_points:
            values = getattr(self, name)
            setattr(chosen, name, None if values is None else values[points.to(values.device)])
        return chosen

    def split(self, *parts: str) -> Self:
        """The points of one or several of "train", "val" and "test"."""
        wanted = [splits.check_part(part) for part in parts]
        if self._part is None:
            raise UserError("these points carry no split into train, val and test; build the store again")
        return self.select(torch.stack([self._part == part for part in wanted]).any(0))

    def learnable(self) -> Self:
        """All points but those of the part "test": also "val", and what is in no part because it shows points of "val"."""
        return self if self._part is None else self.select(self._part != splits.TEST)

    def to(self, device: torch.device | str) -> Self:
        moved = copy.copy(self)
        for name in (*self._of_points, *self._others):
            values = getattr(self, name)
            setattr(moved, name, None if values is None else values.to(device))
        return moved

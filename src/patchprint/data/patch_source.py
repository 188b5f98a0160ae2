"""PatchSource: the interface of all stores that training and benchmarks read patches from."""

from __future__ import annotations

import copy
import hashlib
import mmap
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.data import manifest, splits


def resident_budget(device: torch.device | str, max_gb: float | None) -> int:
    """Return bytes: ``max_gb`` if given, else half of what is free on a GPU, or 8 GiB on the host."""
    if max_gb is None and torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(torch.device(device))[0] // 2
    return int((8.0 if max_gb is None else max_gb) * 2**30)


@dataclass(frozen=True, eq=False)
class MinedLabels:
    """The cluster of each patch, and which clusters of a sequence are distractors of each other.

    Shape:
        cluster (M,) int16 for the rows of the patch array; distractor (S, C, C) bool for the sequences.
    """

    cluster: Tensor
    distractor: Tensor

    def save(self, folder: Path) -> None:
        manifest.save(folder, {"cluster": self.cluster.cpu().numpy(), "distractor": self.distractor.cpu().numpy()})

    @staticmethod
    def load(folder: Path, patches: int, sequences: int) -> MinedLabels:
        distractor = manifest.load(folder, "distractor", "b", (sequences, None, None))
        cluster = manifest.load(folder, "cluster", "i", (patches,), 0, min(distractor.shape[1:]))
        return MinedLabels(torch.from_numpy(np.array(cluster)), torch.from_numpy(np.array(distractor)))

    def to(self, device: torch.device | str) -> MinedLabels:
        return MinedLabels(self.cluster.to(device), self.distractor.to(device))

    def are_distractors(self, scene: Tensor, row: Tensor) -> Tensor:
        """For patches of scene (Q,) at rows (Q,): whether two of the same sequence surely differ, (Q, Q) bool."""
        cluster = self.cluster[row].long()
        return self.distractor[scene[:, None], cluster[:, None], cluster[None, :]]


class PatchSource(ABC):
    """3D points with several views each; a view is a patch.

    ``patch_scale`` is the side of a patch in units of its keypoint's sigma; weights are saved with the one of their training.

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
    _of_points: ClassVar[tuple[str, ...]] = ("num_views", "scene", "_part", "_start")
    _others: ClassVar[tuple[str, ...]] = ("mined",)

    def __init__(self, num_views: Tensor, scene: Tensor, part: Tensor | None, patch_scale: float) -> None:
        self.num_views, self.scene, self._part, self.patch_scale = num_views, scene, part, patch_scale
        self._start = torch.cumsum(num_views, 0) - num_views  # row of the first view of each point

    @property
    def device(self) -> torch.device:
        return self.num_views.device

    @property
    def num_points(self) -> int:
        return len(self.num_views)

    def fingerprint(self) -> str:
        """Return a checksum of scenes and view counts that identifies the data wherever they are stored."""
        points = torch.stack([self.num_views, self.scene]).cpu().numpy().astype("<i8")
        return hashlib.sha256(points.tobytes()).hexdigest()

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

    def observation(self, points: Tensor, views: Tensor) -> Tensor:
        """Return a unique number of each view: its row among the stored patches or tracks.

        Shape:
            points (P,), views (P, K) -> (P, K) int64.
        """
        return self._start[points][:, None] + views

    def all_views(self) -> tuple[Tensor, Tensor]:
        """Return every view of the source: points (M,) and views (M,), on its device."""
        points = torch.repeat_interleave(torch.arange(self.num_points, device=self.device), self.num_views)
        first = torch.cumsum(self.num_views, 0) - self.num_views
        return points, torch.arange(len(points), device=self.device) - first[points]

    @abstractmethod
    def sample(self, points: Tensor, views: Tensor, size: int, warp: Tensor | None = None) -> Tensor:
        """Cut patches.

        ``warp`` is geometric augmentation: the patch at u in [-1, 1]^2 is read from ``warp[..., :2] @ u + warp[..., 2]`` of
        the plain patch. Outside of it are real pixels (images), or its border is repeated (stored patches).

        Shape:
            points (P,) int64, views (P, K) int64, warp (P, K, 2, 3) float or None
            -> float32 in [0, 1], (P, K, channels, size, size), on the source's device.
        """

    def extent(self, points: Tensor, views: Tensor) -> Tensor:
        """Return how far pixels reach from the middle of each patch, right and down, in half sides of the plain patch.

        Shape:
            points (P,), views (P, K) -> (P, K, 2); ones where the patch is all there is.
        """
        return torch.ones(*views.shape, 2, device=self.device)

    def select(self, points: Tensor) -> Self:
        """Return the source with only some points, by index or mask; patches and images are shared, not copied."""
        chosen = copy.copy(self)
        for name in self._of_points:
            values = getattr(self, name)
            setattr(chosen, name, None if values is None else values[points.to(values.device)])
        return chosen

    def split(self, *parts: str) -> Self:
        """Return the points of one or several of "train", "val" and "test"."""
        for part in parts:
            if part not in splits.PARTS:
                raise UserError(f"a source has the parts {', '.join(splits.PARTS)}, not {part!r}")
        if self._part is None:
            raise UserError("these points carry no split into train, val and test; build the store again")
        return self.select(torch.stack([self._part == splits.PARTS[part] for part in parts]).any(0))

    def learnable(self) -> Self:
        """Return all points but those of the part "test"."""
        return self if self._part is None else self.select(self._part != splits.TEST)

    def to(self, device: torch.device | str) -> Self:
        moved = copy.copy(self)
        for name in (*self._of_points, *self._others):
            values = getattr(self, name)
            setattr(moved, name, None if values is None else values.to(device))
        return moved


class ArraySource(PatchSource):
    """A store whose views are rows of one uint8 array, resident on the device where it fits, else memory-mapped."""

    kind: ClassVar[str]
    """Of the store; also the name of the array."""

    _others = (*PatchSource._others, "_resident", "_order")

    def __init__(self, folder: Path, facts: dict[str, Any], budget: int) -> None:
        shape = (None, None, None) if self.channels == 1 else (None, self.channels, None, None)
        self._array = manifest.load(folder, self.kind, "u", shape)
        count, side = len(self._array), self._array.shape[-1]
        num_views = manifest.load(folder, "num_views", "iu", (None,), 1, count + 1)
        is_square = self._array.shape[-2] == side and self._array.dtype == np.uint8
        if not is_square or int(num_views.sum()) != count:
            raise UserError(f"{folder} is damaged: its points are not those of its {self.kind}; {manifest.REMEDY}")
        part = manifest.load(folder, "part", "iu", (len(num_views),), 0, 256)
        order = manifest.load(folder, "order", "iu", (count,), 0, count)
        counts = torch.from_numpy(num_views.astype(np.int64))
        scale = float(facts["patch_scale"])
        super().__init__(counts, torch.zeros_like(counts), torch.from_numpy(np.array(part)), scale)
        self.folder, self.facts = folder, facts
        self._order = torch.from_numpy(np.array(order))
        resident = self._array.nbytes <= budget
        self._resident = torch.from_numpy(manifest.load(folder, self.kind, "u", shape, mode="c")) if resident else None
        pages = getattr(self._array, "_mmap", None)
        if not resident and pages is not None and hasattr(mmap, "MADV_RANDOM"):
            pages.madvise(mmap.MADV_RANDOM)  # no read-ahead, since single rows are read at random

    def _integers(self, name: str, shape: tuple[int, ...], least: int, below: int) -> Tensor:
        """Load an array of the store as int64."""
        return torch.from_numpy(manifest.load(self.folder, name, "iu", shape, least, below).astype(np.int64))

    @classmethod
    def open(cls, folder: str | Path, device: torch.device | str = "cpu", max_resident_gb: float | None = None) -> Self:
        """Open the store in ``folder``; rows beyond the budget (``resident_budget``) are read when they are sampled."""
        budget = resident_budget(device, max_resident_gb)
        return cls(Path(folder), manifest.read(folder, cls.kind), budget).to(device)

    @property
    def is_resident(self) -> bool:
        return self._resident is not None

    def observation(self, points: Tensor, views: Tensor) -> Tensor:
        """Row of the array of each view, (P, K)."""
        return self._order[self._start[points][:, None] + views].long()

    def _pixels(self, row: Tensor) -> Tensor:
        """Rows of the array, float32 in [0, 1]."""
        if self._resident is not None:
            pixels = self._resident[row]
        else:
            pixels = torch.from_numpy(self._array[row.cpu().numpy()]).to(self.device)
        return pixels.float() / 255.0


def warped_grid(warp: Tensor | None, count: int, side: int, device: torch.device) -> Tensor:
    """Where ``count`` squares in [-1, 1]^2 are read.

    Shape:
        warp (..., 2, 3), ``count`` affine maps, or None for the identity -> (count, side, side, 2).
    """
    u = (torch.arange(side, device=device, dtype=torch.float32) * 2 + 1) / side - 1
    grid = torch.stack([u.expand(side, side), u[:, None].expand(side, side)], -1).expand(count, -1, -1, -1)
    if warp is None:
        return grid
    affine = warp.reshape(-1, 1, 1, 2, 3)
    return (affine[..., :2] * grid[..., None, :]).sum(-1) + affine[..., 2]

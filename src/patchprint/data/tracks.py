"""Store of images with tracks (which image shows a 3D point where); patches are sampled on demand.

So augmentation shows real surroundings, and the side of the patch (``patch_scale`` times sigma) is free until training starts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common import distributed
from patchprint.common.errors import UserError, parsing
from patchprint.common.progress import progress
from patchprint.data import manifest, splits, track_files
from patchprint.data.image_bank import DividedImages, ImageBank, ResidentImages, StreamedImages, assign_images
from patchprint.data.patch_source import PatchSource, resident_budget
from patchprint.interop.images import encode_image
from patchprint.ops.sampling import ImagePyramids

LARGEST_SIGMA = 1e6  # pixels; no image has a keypoint as large


@dataclass(frozen=True, eq=False)
class Tracks:
    """V observations of N points, sorted by point; positions in the convention of ``patchprint.common.types``.

    Shape:
        image (V,) int32, xy (V, 2) float32 pixels, scale (V,) float32 sigma, angle (V,) float32 radians,
        point (V,) int32 from 0 to N - 1 without gaps; scene (N,) int32; xyz (N, 3) float32 or None;
        part (N,) uint8 or None: for training, validation or neither (``data.splits``).
    """

    image: np.ndarray
    xy: np.ndarray
    scale: np.ndarray
    angle: np.ndarray
    point: np.ndarray
    scene: np.ndarray
    xyz: np.ndarray | None = None
    part: np.ndarray | None = None

    @staticmethod
    def from_observations(
        image: np.ndarray,
        xy: np.ndarray,
        scale: np.ndarray,
        angle: np.ndarray,
        point: np.ndarray,
        scene: np.ndarray | None = None,
        xyz: np.ndarray | None = None,
    ) -> Tracks:
        """Sort observations in any order into tracks; ``point`` are any labels, ``scene`` and ``xyz`` are per observation."""
        order = np.argsort(point, kind="stable")
        labels, first, dense = np.unique(np.asarray(point)[order], return_index=True, return_inverse=True)

        def column(values: np.ndarray, dtype: type, rows: np.ndarray = order) -> np.ndarray:
            return np.asarray(values)[rows].astype(dtype)

        return Tracks(
            image=column(image, np.int32),
            xy=column(xy, np.float32).reshape(-1, 2),
            scale=column(scale, np.float32),
            angle=column(angle, np.float32),
            point=dense.astype(np.int32),
            scene=np.zeros(len(labels), np.int32) if scene is None else column(scene, np.int32, order[first]),
            xyz=None if xyz is None else column(xyz, np.float32, order[first]),
        )

    @staticmethod
    def concatenate(parts: Sequence[Tracks], num_images: Sequence[int]) -> Tracks:
        """Join several sets; images, points and scenes of each are numbered after those of the one before."""
        if len(parts) == 1:
            return parts[0]
        images = np.cumsum([0, *num_images])
        points = np.cumsum([0, *(part.num_points for part in parts)])
        scenes = np.cumsum([0, *(int(part.scene.max()) + 1 for part in parts)])
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("xy", "scale", "angle")}
        for name, first in (("image", images), ("point", points), ("scene", scenes)):
            joined[name] = np.concatenate([getattr(p, name) + f for p, f in zip(parts, first[:-1], strict=True)])
        for name in ("xyz", "part"):
            if all(getattr(part, name) is not None for part in parts):
                joined[name] = np.concatenate([getattr(part, name) for part in parts])
        return Tracks(**joined)

    @property
    def num_points(self) -> int:
        return len(self.scene)

    def num_views(self) -> np.ndarray:
        """Views of each point, (N,) int64."""
        return np.bincount(self.point, minlength=self.num_points)

    def check(self, image_names: Sequence[str]) -> None:
        """Raise UserError where the arrays contradict each other or name an image that does not exist."""
        count = len(self.point)
        if {len(values) for values in (self.image, self.xy, self.scale, self.angle)} != {count}:
            raise UserError("image, xy, scale, angle and point of tracks must have the same length")
        if count == 0:
            raise UserError("there are no tracks: not a single point is seen in the images")
        step = np.diff(self.point, prepend=-1)
        if not np.isin(step, (0, 1)).all() or self.point[0] != 0 or self.point[-1] + 1 != self.num_points:
            raise UserError("the observations of tracks must be sorted by point, with points numbered without gaps")
        if self.image.min() < 0 or self.image.max() >= len(image_names):
            missing = int(self.image[(self.image < 0) | (self.image >= len(image_names))][0])
            raise UserError(f"a track names image {missing}, but there are only {len(image_names)} images")
        has_size = (self.scale > 0) & (self.scale < LARGEST_SIGMA)
        bad = ~(np.isfinite(self.xy).all(1) & np.isfinite(self.angle) & has_size)
        if bad.any():
            name = image_names[int(self.image[bad][0])]
            raise UserError(f"a track has a position, scale or angle that is not a number, or no size, in image {name}")


class TrackStore(PatchSource):
    """Patches sampled from images on demand. With resident images ``sample`` never waits for the host."""

    _others = (*PatchSource._others, "images", "_image", "_xy", "_axis")

    def __init__(self, images: ImageBank, tracks: Tracks, names: track_files.Names, patch_scale: float) -> None:
        num_views = torch.from_numpy(tracks.num_views())
        scene = torch.from_numpy(tracks.scene.astype(np.int64))
        part = None if tracks.part is None else torch.from_numpy(np.array(tracks.part))
        super().__init__(num_views, scene, part, patch_scale)
        self.images, self.tracks, self.names = images, tracks, names
        scale, angle = (torch.from_numpy(np.array(values)) for values in (tracks.scale, tracks.angle))
        self._image = torch.from_numpy(np.array(tracks.image))
        self._xy = torch.from_numpy(np.array(tracks.xy))
        self._axis = scale[:, None] * torch.stack([torch.cos(angle), torch.sin(angle)], 1)

    @staticmethod
    def from_images(
        images: Sequence[np.ndarray | Tensor],
        tracks: Tracks,
        patch_scale: float = 12.0,
        device: torch.device | str = "cpu",
    ) -> TrackStore:
        """Make a store in memory from gray uint8 images (H, W); without a given split the points are split by region."""
        names = track_files.Names.numbered(len(images), int(tracks.scene.max()) + 1 if tracks.num_points else 0)
        tracks.check(names.images)
        if tracks.part is None:
            tracks = dataclasses.replace(tracks, part=splits.by_region(tracks))
        return TrackStore(ResidentImages(ImagePyramids.build(images)), tracks, names, patch_scale).to(device)

    @staticmethod
    def open(
        folder: str | Path | Sequence[str | Path],
        device: torch.device | str = "cpu",
        patch_scale: float | None = None,
        max_resident_gb: float | None = None,
        divided: bool = False,
    ) -> TrackStore:
        """Open the store in ``folder``, or those in several folders as one.

        Args:
            folder: one store, or several.
            device: where patches are sampled.
            patch_scale: replaces that of the first store.
            max_resident_gb: images beyond this (``resident_budget``) are decoded when they are sampled.
            divided: each process holds only its share of the images, and all ``sample`` together.
        """
        folders = [folder] if isinstance(folder, str | Path) else list(folder)
        stored = [track_files.read(name) for name in folders]
        sizes = np.concatenate([part.sizes for part in stored])
        ranks, rank = (distributed.world_size(), distributed.rank()) if divided else (1, 0)
        holder = assign_images(sizes, ranks)
        images = _open_images(stored, np.flatnonzero(holder == rank), sizes, device, max_resident_gb)
        if ranks > 1:
            images = DividedImages(images, torch.from_numpy(holder).to(device))
        parts = [Tracks(**part.arrays) for part in stored]
        for part, tracks in zip(stored, parts, strict=True):
            with parsing(part.folder, "a store of tracks", manifest.REMEDY):
                tracks.check(part.names.images)
        tracks = Tracks.concatenate(parts, [len(part.sizes) for part in stored])
        names = [[name for part in stored for name in getattr(part.names, kind)] for kind in ("images", "scenes")]
        return TrackStore(images, tracks, track_files.Names(*names), patch_scale or stored[0].patch_scale).to(device)

    def save(self, folder: str | Path, force: bool = False) -> None:
        """Write the store with losslessly encoded images."""
        images = (encode_image(self.images.pixels(i)) for i in range(len(self.images)))
        track_files.write(folder, images, self.tracks, self.names, patch_scale=self.patch_scale, force=force)

    @property
    def is_resident(self) -> bool:
        return isinstance(self.images, ResidentImages)

    @property
    def is_divided(self) -> bool:
        return isinstance(self.images, DividedImages)

    @property
    def first_image(self) -> Tensor:
        return self._image[self._start]

    def sample(self, points: Tensor, views: Tensor, size: int, warp: Tensor | None = None) -> Tensor:
        row = self.observation(points, views).reshape(-1)
        axis = self._axis[row] * (self.patch_scale / 2.0)
        frame = torch.stack([axis, torch.stack([-axis[:, 1], axis[:, 0]], 1)], 2)
        center = self._xy[row]
        if warp is not None:
            # Written as sums, since a matrix product would lose digits under autocast.
            moved = (frame[:, :, :, None] * warp.reshape(-1, 1, 2, 3)).sum(2)
            frame, center = moved[:, :, :2], center + moved[:, :, 2]
        patches = self.images.cut(self._image[row].long(), center, frame, size)
        return patches.reshape(*views.shape, 1, size, size)


def _open_images(
    stored: Sequence[track_files.StoredTracks],
    wanted: np.ndarray,
    sizes: np.ndarray,
    device: torch.device | str,
    max_resident_gb: float | None,
) -> ImageBank:
    """Open those images of the stores that are ``wanted``, in memory where they fit.

    Shape:
        wanted (W,) numbers of images, counted over all stores; sizes (N, 2) width, height of all of them.
    """
    every = [(part, number) for part in stored for number in range(len(part.sizes))]

    def decode(number: int) -> np.ndarray:
        part, place = every[wanted[number]]
        return part.image(place)

    budget = resident_budget(device, max_resident_gb)
    if int(np.prod(sizes[wanted].astype(np.float64), axis=1).sum() * 4 / 3) > budget:  # a pyramid has 4/3 of the pixels
        return StreamedImages(len(wanted), decode, budget, device)
    numbers = progress(range(len(wanted)), "reading images", "image")
    return ResidentImages(ImagePyramids.build(map(decode, numbers), device))

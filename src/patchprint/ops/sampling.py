"""Patches out of images: the one place where pixels around a keypoint become the input of a network.

Inference and training from images both go through ``sample_patches``, because a network must see at test time what it
saw in training. Every image is kept as a pyramid of halved copies; a patch is read with bilinear interpolation from the
level whose pixels are nearest in size to the pixels of the patch (between 0.71 and 1.41 of it), so that large patches do
not alias. Beyond its border an image repeats its last pixels.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.devices import Recording, parallel_map, supports_triton
from patchprint.common.errors import UserError
from patchprint.common.types import Keypoints

_SMALLEST_SIDE = 8
_CHUNK = 2048
_CHUNK_PIXELS = 1 << 19  # of patches that one core of a CPU cuts at a time
_STRIP_PIXELS = 1 << 22
_MOST_PIXELS_IN_FLOATS = 1 << 25
_MOST_PIXELS_RECORDED = 1 << 22  # larger images take longer than it takes to queue their kernels
_turn = threading.Lock()  # a recording has one input and one output buffer


@dataclass(frozen=True, eq=False)
class ImagePyramids:
    """The pyramids of many gray images of different sizes in one flat buffer.

    Shape:
        pixels (B,) uint8 or float32; offset, width, height (I, L) int64: where level l of image i starts and how large it is.
        An image with fewer than L levels repeats its smallest one in the tables; num_levels (I,) int64 says how many it has.
    """

    pixels: Tensor
    offset: Tensor
    width: Tensor
    height: Tensor
    num_levels: Tensor

    @staticmethod
    def build(images: Iterable[np.ndarray | Tensor], device: torch.device | str = "cpu") -> ImagePyramids:
        """Build pyramids of images (H, W), uint8, or float32 in [0, 255] with a gradient, on ``device``."""
        given = [_checked(torch.as_tensor(image)) for image in images]
        if not given:
            raise UserError("no images were given to cut patches from")
        sizes = [_level_sizes(*image.shape) for image in given]
        with_gradient = any(image.requires_grad for image in given)
        few_pixels = len(given) == 1 and given[0].numel() <= _MOST_PIXELS_RECORDED
        if few_pixels and not with_gradient and supports_triton(torch.device(device)):
            with _turn:  # small kernels take less time than queueing them: they are recorded for images of one size
                recording, tables = _recording(*given[0].shape, torch.device(device))
                return ImagePyramids(recording(given[0]).clone(), *tables)
        if with_gradient:
            pixels = torch.cat([level.reshape(-1) for image in given for level in _with_gradient(image.to(device))])
        else:
            counts = [sum(h * w for h, w in levels) for levels in sizes]
            pixels = torch.empty(sum(counts), dtype=torch.uint8, device=device)
            for image, part in zip(given, pixels.split(counts), strict=True):
                _halve_into(part, image)
        return ImagePyramids(pixels, *_tables(sizes, device))

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def device(self) -> torch.device:
        return self.pixels.device

    def level(self, number: int) -> Tensor:
        """Return a level of the first image as floats in [0, 1], (1, 1, H, W)."""
        known = {} if self.pixels.requires_grad else self._known  # a gradient goes through each use once
        if number not in known:
            start, width, height = (int(table[0, number]) for table in (self.offset, self.width, self.height))
            known[number] = self.pixels[start : start + width * height].view(1, 1, height, width) / 255.0
        return known[number]

    @functools.cached_property
    def _known(self) -> dict[int, Tensor]:
        return {}

    def to(self, device: torch.device | str) -> ImagePyramids:
        tables = (self.pixels, self.offset, self.width, self.height, self.num_levels)
        return ImagePyramids(*(table.to(device) for table in tables))


def sample_patches(pyramids: ImagePyramids, image: Tensor, center: Tensor, frame: Tensor, size: int) -> Tensor:
    """Cut N patches; the value at u in [-1, 1]^2 is the image at ``center + frame @ u``.

    Pixel j of a patch row lies at u = (2 j + 1) / size - 1. No loops and no host synchronization, so it can stand in a
    compiled function or a CUDA graph; callers with very many patches on a CPU cut them in chunks (``cut_patches``).

    Shape:
        image (N,) int64, center (N, 2) pixels, frame (N, 2, 2) pixels per half side -> (N, 1, size, size) float32 in [0, 1].
    """
    return _read(pyramids, size, image, *_in_levels(pyramids, image, center, frame, size))


def _in_levels(
    pyramids: ImagePyramids, image: Tensor, center: Tensor, frame: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Choose the pyramid level of each patch, (N,) int64, and convert center and frame to its pixels."""
    # Written out, since torch.linalg.det goes through a solver that a CUDA graph cannot hold.
    area = frame[:, 0, 0] * frame[:, 1, 1] - frame[:, 0, 1] * frame[:, 1, 0]
    spacing = area.abs().sqrt() * (2.0 / size)
    level = torch.log2(spacing.clamp(min=1e-6)).round().clamp(min=0).long()
    level = torch.minimum(level, pyramids.num_levels[image] - 1)
    # In a level, pixels are 2**level times as large, and the outer edge of the image (-0.5) stays where it is.
    shrink = torch.exp2(-level.float())
    return level, (center + 0.5) * shrink[:, None] - 0.5, frame * shrink[:, None, None]


def _read(pyramids: ImagePyramids, size: int, image: Tensor, level: Tensor, center: Tensor, frame: Tensor) -> Tensor:
    u = (torch.arange(size, device=center.device, dtype=torch.float32) * 2 + 1) / size - 1
    # Not for huge images, whose pixels are turned into floats on the way, nor where places are learned.
    moves = center.requires_grad or frame.requires_grad
    few_pixels = pyramids.pixels.numel() <= _MOST_PIXELS_IN_FLOATS
    if len(pyramids) == 1 and pyramids.device.type == "cpu" and few_pixels and not moves:
        return _read_level_by_level(pyramids, level, center, frame, u)

    offset, width, height = (t[image, level] for t in (pyramids.offset, pyramids.width, pyramids.height))
    x = _along(center[:, 0], frame[:, 0], u).clamp(min=0).minimum((width - 1).float()[:, None, None])
    y = _along(center[:, 1], frame[:, 1], u).clamp(min=0).minimum((height - 1).float()[:, None, None])
    left, top = x.floor(), y.floor()
    dx, dy = x - left, y - top
    stride = width[:, None, None]
    step_x = (left.long() + 1 < stride).long()
    step_y = (top.long() + 1 < height[:, None, None]).long() * stride
    corner = offset[:, None, None] + top.long() * stride + left.long()

    def read(index: Tensor) -> Tensor:
        return pyramids.pixels[index].float()

    above = read(corner) * (1 - dx) + read(corner + step_x) * dx
    below = read(corner + step_y) * (1 - dx) + read(corner + step_y + step_x) * dx
    return ((above * (1 - dy) + below * dy) / 255.0).unsqueeze(1)


def _read_level_by_level(pyramids: ImagePyramids, level: Tensor, center: Tensor, frame: Tensor, u: Tensor) -> Tensor:
    """Read patches of one image by ``grid_sample``, the fastest way on a CPU; values differ by rounding."""
    numbers = torch.unique(level).tolist()
    if len(numbers) == 1:
        return _read_level(pyramids.level(numbers[0]), center, frame, u)
    patches = torch.empty(len(level), 1, len(u), len(u))
    for number in numbers:
        rows = (level == number).nonzero()[:, 0]
        patches[rows] = _read_level(pyramids.level(number), center[rows], frame[rows], u)
    return patches


def _read_level(pixels: Tensor, center: Tensor, frame: Tensor, u: Tensor) -> Tensor:
    count, size, (height, width) = len(center), len(u), pixels.shape[2:]
    # Coordinates are -1 in the middle of the first pixel and 1 in the middle of the last one. All x lie before all y in
    # memory, which is faster to write and to read.
    grid = torch.empty(2, count, size, size)
    for axis, per_pixel in enumerate((2.0 / max(width - 1, 1), 2.0 / max(height - 1, 1))):
        _along(center[:, axis] * per_pixel - 1, frame[:, axis] * per_pixel, u, grid[axis])
    places = grid.view(2, 1, 1, -1).permute(1, 2, 3, 0)
    return F.grid_sample(pixels, places, padding_mode="border", align_corners=True).view(count, 1, size, size)


def keypoint_frames(keypoints: Keypoints, patch_scale: float) -> Tensor:
    """Return half-side frames (N, 2, 2) in pixels of the patches of keypoints."""
    return keypoints.frames() * (patch_scale / 2.0)


def cut_patches(
    pyramids: ImagePyramids, image: int | Tensor, keypoints: Keypoints, patch_scale: float, size: int
) -> Tensor:
    """Sample the patches of keypoints, (N, 1, size, size) on the pyramids' device, in chunks that bound memory."""
    # In one tensor, since each copy to a GPU takes its time.
    place = torch.cat([keypoints.xy, keypoint_frames(keypoints, patch_scale).flatten(1)], 1).to(pyramids.device)
    learns = place.requires_grad or pyramids.pixels.requires_grad
    if supports_triton(pyramids.device) and not learns:
        from patchprint.ops import sampling_kernel

        tables = (pyramids.offset, pyramids.width, pyramids.height, pyramids.num_levels)
        return sampling_kernel.sample(pyramids.pixels, tables, image, place, size)
    if isinstance(image, int):
        image = torch.full((len(keypoints),), image, device=pyramids.device)
    patches = torch.empty(len(keypoints), 1, size, size, device=pyramids.device)

    def cut(rows: slice | Tensor) -> None:
        center, frame = place[rows, :2], place[rows, 2:].unflatten(1, (2, 2))
        patches[rows] = sample_patches(pyramids, image[rows], center, frame, size)

    if pyramids.device.type == "cpu" and not learns:
        parallel_map(
            lambda: contextlib.nullcontext(cut), _of_one_size(keypoints).split(max(_CHUNK_PIXELS // size**2, 1))
        )
    else:
        for start in range(0, len(keypoints), _CHUNK):
            cut(slice(start, start + _CHUNK))
    return patches


def lazy_patches(
    pyramids: ImagePyramids, keypoints: Keypoints, patch_scale: float, size: int, most: int
) -> tuple[Tensor, list[Callable[[], Tensor]]]:
    """Sample patches of the first image lazily, in chunks that are used before they leave the CPU cache.

    Shape:
        rows (N,): the keypoints in the order in which their patches come; each of the functions gives the next ones,
        (M, 1, size, size), M at most ``most``.
    """
    image = torch.zeros(len(keypoints), dtype=torch.int64)
    placed = _in_levels(pyramids, image, keypoints.xy, keypoint_frames(keypoints, patch_scale), size)
    rows = _of_one_size(keypoints)
    given = zip(*(each[rows].split(most) for each in (image, *placed)), strict=True)
    return rows, [functools.partial(_read, pyramids, size, *part) for part in given]


def _of_one_size(keypoints: Keypoints) -> Tensor:
    """Return the rows of keypoints by size, since those of one size come from the same level."""
    return keypoints.scale.argsort()


def _along(center: Tensor, row: Tensor, u: Tensor, out: Tensor | None = None) -> Tensor:
    """One image coordinate of every patch pixel, (N, size, size): center + row[0] * u_column + row[1] * u_row."""
    columns, rows = center[:, None] + row[:, :1] * u, row[:, 1:] * u
    return torch.add(columns[:, None, :], rows[:, :, None], out=out)


def _checked(image: Tensor) -> Tensor:
    if image.ndim != 2 or not (image.dtype == torch.uint8 or image.requires_grad) or 0 in image.shape:
        raise UserError(f"images must be gray uint8 of shape (height, width), got {image.dtype} {tuple(image.shape)}")
    return image


def _level_sizes(height: int, width: int) -> list[tuple[int, int]]:
    """Return height and width of an image and its halved copies, down to a side of about 8 pixels."""
    sizes = [(height, width)]
    while min(sizes[-1]) >= 2 * _SMALLEST_SIDE:
        sizes.append((sizes[-1][0] // 2, sizes[-1][1] // 2))
    return sizes


def _tables(sizes: list[list[tuple[int, int]]], device: torch.device | str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Create offset, width and height (I, L) and num_levels (I,) of pyramids whose levels follow each other."""
    depth = max(len(levels) for levels in sizes)
    rows, position = [], 0
    for levels in sizes:
        found = []
        for height, width in levels:
            found.append((position, width, height))
            position += height * width
        found += [found[-1]] * (depth - len(levels))
        rows.append([*(value for column in zip(*found, strict=True) for value in column), len(levels)])
    table = torch.tensor(rows).to(device)  # in one tensor, since each copy to a GPU takes its time
    first, second, third = (table[:, start : start + depth].contiguous() for start in range(0, 3 * depth, depth))
    return first, second, third, table[:, -1].contiguous()


def _with_gradient(image: Tensor) -> list[Tensor]:
    """Return an image (H, W) and its halved copies in floats."""
    levels = [image.float()]
    while min(levels[-1].shape) >= 2 * _SMALLEST_SIDE:
        levels.append(_halved(levels[-1]))
    return levels


def _halve_into(pixels: Tensor, image: Tensor) -> None:
    """Write an image (H, W) and its halved copies into ``pixels``; each is halved before it is rounded."""
    sizes = _level_sizes(*image.shape)
    first, *rest = (part.view(size) for part, size in zip(pixels.split([h * w for h, w in sizes]), sizes, strict=True))
    current = first.copy_(image)
    for level in rest:
        if supports_triton(current.device):
            from patchprint.ops import sampling_kernel

            current = sampling_kernel.halve(current, level)
        else:
            current = _halved(current)
            level.copy_(current.round())


@functools.lru_cache(maxsize=8)
def _recording(height: int, width: int, device: torch.device) -> tuple[Recording, tuple[Tensor, ...]]:
    sizes = _level_sizes(height, width)

    def halve(image: Tensor) -> Tensor:
        pixels = torch.empty(sum(h * w for h, w in sizes), dtype=torch.uint8, device=device)
        _halve_into(pixels, image)
        return pixels

    return Recording(halve, torch.zeros(height, width, dtype=torch.uint8, device=device)), _tables([sizes], device)


def _halved(image: Tensor) -> Tensor:
    """Halve an image, (H, W) -> (H // 2, W // 2) float32, in strips that bound memory."""
    height, width = image.shape
    strip = max(16, _STRIP_PIXELS // width // 2)
    parts = []
    for start in range(0, height // 2, strip):
        stop = min(start + strip, height // 2)
        rows = torch.arange(2 * start - 2, 2 * stop + 2, device=image.device).clamp(0, height - 1)
        columns = F.pad(image[rows].float()[None, None], (2, 2, 0, 0), mode="replicate")[0, 0]
        parts.append(_halved_rows(_halved_rows(columns).t()).t() / 1024)
    return torch.cat(parts)


def _halved_rows(rows: Tensor) -> Tensor:
    """Halve rows, times 32, (2 N + 4, W) -> (N, W): a binomial filter around the edge that two rows share.

    Sums of slices are a few times faster than a convolution of one channel.
    """
    count = len(rows) // 2 - 2
    taps = [rows[start : start + 2 * count - 1 : 2] for start in range(6)]
    return (taps[0] + taps[5]).add_(taps[1] + taps[4], alpha=5).add_(taps[2] + taps[3], alpha=10)

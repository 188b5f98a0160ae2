"""Images of a TrackStore: pyramids resident on the device where they fit, else decoded on demand."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from patchprint.common.distributed import rank, world_size
from patchprint.common.errors import UserError
from patchprint.common.lru import Lru
from patchprint.ops.sampling import ImagePyramids, sample_patches


class ResidentImages:
    """All images as pyramids in one buffer on the device. Cutting never touches the host.

    Other banks have the same methods; the arguments of ``cut`` are those of ``sample_patches``.
    """

    def __init__(self, pyramids: ImagePyramids) -> None:
        self.pyramids = pyramids

    def __len__(self) -> int:
        return len(self.pyramids)

    def cut(self, image: Tensor, center: Tensor, frame: Tensor, size: int) -> Tensor:
        return sample_patches(self.pyramids, image, center, frame, size)

    def pixels(self, number: int) -> np.ndarray:
        """Pixels of one image, (H, W) uint8."""
        table = self.pyramids
        start, width, height = (int(values[number, 0]) for values in (table.offset, table.width, table.height))
        return table.pixels[start : start + width * height].reshape(height, width).cpu().numpy()

    def to(self, device: torch.device | str) -> ResidentImages:
        return ResidentImages(self.pyramids.to(device))


class StreamedImages:
    """Images decoded on demand, with an LRU cache of ``cache_bytes``; for sets larger than memory."""

    def __init__(
        self, count: int, decode: Callable[[int], np.ndarray], cache_bytes: int, device: torch.device | str = "cpu"
    ) -> None:
        self._count, self._decode, self._cache_bytes = count, decode, cache_bytes
        self._device = torch.device(device)
        self._cache: Lru[ImagePyramids] = Lru(cache_bytes, cost=lambda pyramids: pyramids.pixels.numel())

    def __len__(self) -> int:
        return self._count

    def cut(self, image: Tensor, center: Tensor, frame: Tensor, size: int) -> Tensor:
        patches = torch.empty(len(image), 1, size, size, device=self._device)
        for number in torch.unique(image).tolist():
            rows = (image == number).nonzero()[:, 0]
            pyramids = self._pyramids(number)
            patches[rows] = sample_patches(pyramids, torch.zeros_like(rows), center[rows], frame[rows], size)
        return patches

    def pixels(self, number: int) -> np.ndarray:
        return self._decode(number)

    def to(self, device: torch.device | str) -> StreamedImages:
        return StreamedImages(self._count, self._decode, self._cache_bytes, device)

    def _pyramids(self, number: int) -> ImagePyramids:
        return self._cache.get(number, lambda: ImagePyramids.build([self._decode(number)], self._device))


def assign_images(sizes: np.ndarray, count: int) -> np.ndarray:
    """Assign images to ``count`` processes with about equal numbers of pixels, at least one image each.

    Shape:
        sizes (N, 2) width, height -> (N,) int64.
    """
    if count > len(sizes):
        raise UserError(f"{count} processes cannot divide {len(sizes)} images; start at most {len(sizes)}")
    holder = np.zeros(len(sizes), np.int64)
    least = [(0, number) for number in range(count)]
    pixels = np.prod(sizes.astype(np.int64), axis=1)
    for image in np.argsort(-pixels, kind="stable"):
        held, number = heapq.heappop(least)
        holder[image] = number
        heapq.heappush(least, (held + int(pixels[image]), number))
    return holder


class DividedImages:
    """All images of a store, of which this process holds ``held``; sampling is a collective operation.

    Shape:
        holder (N,) int64: who holds each image. ``held`` has those of this process, in their order.
    """

    def __init__(self, held: ImageBank, holder: Tensor) -> None:
        self.held, self._holder = held, holder
        place = torch.empty_like(holder)
        for number in range(world_size()):
            theirs = holder == number
            place[theirs] = torch.arange(int(theirs.sum()), device=holder.device)
        self._place = place

    def __len__(self) -> int:
        return len(self._holder)

    def cut(self, image: Tensor, center: Tensor, frame: Tensor, size: int) -> Tensor:
        holder = self._holder[image]
        order = torch.argsort(holder, stable=True)
        asked = torch.bincount(holder, minlength=world_size())
        # Float64 holds the number of an image and the float32 beside it without loss.
        where = torch.cat([self._place[image][:, None].double(), center.double(), frame.double().flatten(1)], 1)
        to_cut = _exchange(asked, [1] * len(asked), [1] * len(asked)).tolist()
        to_get = asked.tolist()
        theirs = _exchange(where[order], to_get, to_cut)
        place, there = theirs[:, 0].long(), theirs[:, 1:].to(center.dtype)
        cut = self.held.cut(place, there[:, :2].contiguous(), there[:, 2:].unflatten(1, (2, 2)), size)
        patches = torch.empty(len(image), *cut.shape[1:], dtype=cut.dtype, device=cut.device)
        patches[order] = _exchange(cut, to_cut, to_get)
        return patches

    def pixels(self, number: int) -> np.ndarray:
        if self._holder[number] != rank():
            raise UserError(f"image {number} is held by process {int(self._holder[number])}; open the store undivided")
        return self.held.pixels(int(self._place[number]))

    def to(self, device: torch.device | str) -> DividedImages:
        return DividedImages(self.held.to(device), self._holder.to(device))


ImageBank = ResidentImages | StreamedImages | DividedImages


def _exchange(values: Tensor, to_each: list[int], from_each: list[int]) -> Tensor:
    """Exchange rows of ``values`` with all processes (all-to-all); returns the rows received.

    Shape:
        (sum(to_each), ...) -> (sum(from_each), ...).
    """
    received = torch.empty(sum(from_each), *values.shape[1:], dtype=values.dtype, device=values.device)
    dist.all_to_all_single(received, values.contiguous(), from_each, to_each)
    return received

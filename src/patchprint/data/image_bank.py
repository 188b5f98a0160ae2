"""Images of a TrackStore: pyramids resident on the device where they fit, else decoded on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from patchprint.common.lru import Lru
from patchprint.ops.sampling import ImagePyramids, sample_patches

_PYRAMID_BYTES_PER_PIXEL = 4 / 3


def pyramid_bytes(sizes: np.ndarray) -> int:
    """Return the memory of the pyramids of images of ``sizes`` (N, 2) width, height."""
    return int(np.prod(sizes.astype(np.int64), axis=1).sum() * _PYRAMID_BYTES_PER_PIXEL)


class ImageBank(Protocol):
    """A set of images to sample patches from; the arguments are those of ``sample_patches``."""

    def __len__(self) -> int: ...

    @property
    def held_bytes(self) -> int:
        """Memory of the images that this process holds now, as pyramids."""
        ...

    def cut(self, image: Tensor, center: Tensor, frame: Tensor, size: int) -> Tensor: ...

    def pixels(self, number: int) -> np.ndarray:
        """Pixels of one image, (H, W) uint8."""
        ...

    def to(self, device: torch.device | str) -> ImageBank: ...


class ResidentImages:
    """All images as pyramids in one buffer on the device. Cutting never touches the host."""

    def __init__(self, pyramids: ImagePyramids) -> None:
        self.pyramids = pyramids

    def __len__(self) -> int:
        return len(self.pyramids)

    @property
    def held_bytes(self) -> int:
        return self.pyramids.pixels.nbytes

    def cut(self, image: Tensor, center: Tensor, frame: Tensor, size: int) -> Tensor:
        return sample_patches(self.pyramids, image, center, frame, size)

    def pixels(self, number: int) -> np.ndarray:
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

    @property
    def held_bytes(self) -> int:
        return self._cache.held

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

"""The central square of an image: where it lies, and that shrinking smooths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint.data.image_store import ImageStore
from patchprint.data.square_crops import central_square
from support.image_sets import images_of_class


def write(folder: Path, images: list[np.ndarray]) -> ImageStore:
    count = len(images)
    numbers, names = np.arange(count), [str(number) for number in range(count)]
    ImageStore.write(folder, images, numbers, np.zeros(count, np.uint8), numbers, names, names)
    return ImageStore.open(folder)


@pytest.mark.parametrize("shape", [(32, 32), (32, 40), (45, 32)], ids=str)
def test_a_store_reads_the_same_square(tmp_path: Path, shape: tuple[int, int]) -> None:
    """Also where the square begins between two pixels."""
    images = images_of_class(3, 2, shape)
    store = write(tmp_path / "store", images)
    stored = store.sample(torch.arange(2), torch.zeros(2, 1, dtype=torch.int64), 32)[:, 0]
    torch.testing.assert_close(torch.stack([central_square(image, 32) for image in images]), stored)


def test_pixels_of_the_middle_are_kept_at_their_size() -> None:
    (image,) = images_of_class(0, 1, (20, 30))
    expected = torch.from_numpy(image[:, 5:25].copy()).permute(2, 0, 1) / 255
    torch.testing.assert_close(central_square(image, 20), expected)


def test_shrinking_smooths() -> None:
    """Stripes as fine as pixels become gray, whatever the factor; plain sampling would keep some of them."""
    stripes = np.zeros((90, 120, 3), np.uint8)
    stripes[:, ::2] = 255
    for size in (30, 40, 64):
        inner = central_square(stripes, size)[:, 2:-2, 2:-2]
        assert float(inner.std()) < 0.1
        assert float(inner.mean()) == pytest.approx(0.5, abs=0.02)


def test_growing_interpolates() -> None:
    ramp = np.repeat(np.arange(0, 160, 10, dtype=np.uint8)[None, :, None], 16, 0).repeat(3, 2)
    grown = central_square(ramp, 32)
    np.testing.assert_allclose(grown[0, 5, 1:-1].numpy() * 255, np.arange(1, 31) * 5 - 2.5, atol=0.01)

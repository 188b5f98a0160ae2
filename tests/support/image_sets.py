"""Small sets of labeled images: classes that differ in color and texture, in the format of the stores."""

from pathlib import Path

import numpy as np

from patchprint.data import splits
from patchprint.data.image_store import ImageStore


def images_of_class(number: int, count: int, size: tuple[int, int] = (36, 40), seed: int = 0) -> list[np.ndarray]:
    """(H, W, 3) uint8 images with the stripes and the hue of a class, and noise of their own."""
    random = np.random.default_rng((seed, number))
    hue, angle, period = random.uniform(0.2, 0.8, 3), random.uniform(0, np.pi), random.uniform(4, 12)
    y, x = np.mgrid[: size[0], : size[1]]
    images = []
    for _ in range(count):
        phase = random.uniform(0, 2 * np.pi)
        wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period + phase)
        values = hue + 0.15 * wave[..., None] + random.normal(0, 0.05, (*size, 3))
        images.append((values.clip(0, 1) * 255).round().astype(np.uint8))
    return images


def write_store(
    folder: Path, classes: int = 12, count: int = 6, size: tuple[int, int] = (36, 40), same_classes: bool = False
) -> Path:
    """Half of the classes for training, of which the last is for validation, the others for testing.

    ``same_classes``: those of the second half have the labels of the first.
    """
    images = [image for number in range(classes) for image in images_of_class(number, count, size)]
    part = np.full(classes, splits.TEST, np.uint8)
    part[: classes // 2] = splits.TRAIN
    part[classes // 2 - 2 : classes // 2] = splits.VAL
    ImageStore.write(
        folder,
        images,
        point=np.repeat(np.arange(classes), count),
        point_part=part,
        point_label=np.arange(classes) % (classes // 2 if same_classes else classes),
        class_names=[f"class {number}" for number in range(classes)],
        names=[f"{number}/{index}.png" for number in range(classes) for index in range(count)],
    )
    return folder

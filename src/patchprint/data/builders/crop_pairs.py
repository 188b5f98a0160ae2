"""Two views of one place with exact truth: random crops of images, turned, zoomed and tilted, in very different light."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from patchprint.common.errors import UserError, require
from patchprint.ops.geometry import rotation

_FLAT = 8.0  # standard deviation of gray values below which a crop shows nothing
_SMALLEST = 0.45  # times that an image is shrunk at most before it is cut
_TURNED = 0.6  # share of pairs turned by any angle; the others are nearly upright
_TRIES = 100


@dataclass(frozen=True, eq=False)
class CropPair:
    """Two crops, uint8 (S, S), the homography (3, 3) from the first to the second, and where the second shows the image."""

    first: np.ndarray
    second: np.ndarray
    homography: np.ndarray
    shown: np.ndarray


def draw_crop_pair(generator: np.random.Generator, draw_image: Callable[[], np.ndarray], side: int) -> CropPair:
    """Draw a pair of crops of an image that is not uniform; ``draw_image`` returns images, uint8 (H, W)."""
    cv2 = require("cv2", extra="images")
    for _ in range(_TRIES):
        image = draw_image()
        shrink = max(np.exp(generator.uniform(np.log(_SMALLEST), 0)), (side + 1) / min(image.shape))
        if shrink < 1:
            image = cv2.resize(image, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA)
        if min(image.shape) < side:
            continue
        top, left = (int(generator.integers(length - side + 1)) for length in image.shape)
        first = np.ascontiguousarray(image[top : top + side, left : left + side])
        if first.std() > _FLAT:
            break
    else:
        raise UserError(f"the images show nothing in {side} x {side} pixels; give larger ones, or a smaller --side")
    homography = _draw_homography(generator, side)
    from_image = homography @ np.array([[1, 0, -left], [0, 1, -top], [0, 0, 1.0]])
    method = cv2.INTER_LINEAR if abs(np.linalg.det(homography[:2, :2])) > 0.6 else cv2.INTER_AREA
    second = cv2.warpPerspective(image, from_image, (side, side), flags=method, borderMode=cv2.BORDER_REFLECT_101)
    shown = cv2.warpPerspective(np.ones_like(image), from_image, (side, side), flags=cv2.INTER_NEAREST)
    if generator.random() < 0.7:
        first = change_light(generator, first, generator.uniform(0.3, 1))
    second = change_light(generator, second, generator.uniform(0.3, 1.1))
    return CropPair(first, second, homography, shown > 0)


def _draw_homography(generator: np.random.Generator, side: int) -> np.ndarray:
    turn = generator.uniform(-np.pi, np.pi) if generator.random() < _TURNED else generator.normal(0, 0.2)
    zoom, stretch = np.exp(generator.uniform(-0.6, 0.6)), np.exp(generator.uniform(-0.35, 0.35))
    direction = generator.uniform(0, np.pi)
    homography = np.eye(3)
    homography[:2, :2] = (
        zoom * rotation(turn) @ rotation(direction) @ np.diag([stretch, 1 / stretch]) @ rotation(-direction)
    )
    homography[2, :2] = generator.uniform(-0.4, 0.4, 2) / side
    to_center, shift = np.eye(3), np.eye(3)
    to_center[:2, 2] = (side - 1) / 2
    shift[:2, 2] = generator.uniform(-0.06, 0.06, 2) * side
    return to_center @ shift @ homography @ np.linalg.inv(to_center)


def change_light(generator: np.random.Generator, image: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Show an image, uint8 (H, W), in other light and by another camera, each change with its own probability.

    Changes of the scene are fields of light, shadows, haze and night with lamps; those of the camera are gamma, contrast,
    other tone curves, inversion, blur, noise and JPEG traces.
    """
    cv2 = require("cv2", extra="images")
    values = _light_scene(generator, image.astype(np.float32) / 255, strength)
    if generator.random() < 0.06 * strength:
        values = values.max() - values
    if generator.random() < 0.15 * strength:  # one in three of these is not monotone, as between sensors
        curve = generator.uniform(0, 1, 6)
        curve = np.sort(curve) if generator.random() < 0.7 else curve
        values = np.interp(np.clip(values, 0, 1), np.linspace(0, 1, 6), curve).astype(np.float32)
    contrast = np.exp(generator.uniform(-0.8, 0.4) * strength)
    values = (values - values.mean()) * contrast + values.mean() + generator.uniform(-0.15, 0.15) * strength
    values = _blur(generator, values.astype(np.float32))
    deviation = generator.uniform(0, 0.015) if generator.random() < 0.7 else generator.uniform(0.015, 0.06)
    values = values + generator.normal(0, deviation * strength, values.shape)
    pixels = np.clip(np.round(values * 255), 0, 255).astype(np.uint8)
    quality = [cv2.IMWRITE_JPEG_QUALITY, int(generator.uniform(15, 95))]
    return cv2.imdecode(cv2.imencode(".jpg", pixels, quality)[1], cv2.IMREAD_GRAYSCALE)


def _light_scene(generator: np.random.Generator, values: np.ndarray, strength: float) -> np.ndarray:
    height, width = values.shape
    if generator.random() < 0.5 * strength:
        values = values * np.exp(0.6 * strength * _field(generator, height, width, 5))
    if generator.random() < 0.35 * strength:
        for _ in range(generator.integers(1, 3)):
            depth = _field(generator, height, width, 4)
            if generator.random() < 0.5:  # of a straight edge
                angle, x, y = generator.uniform(0, 2 * np.pi), generator.uniform(0, width), generator.uniform(0, height)
                depth = (np.cos(angle) * (np.arange(width) - x) + np.sin(angle) * (np.arange(height) - y)[:, None]) / 30
            share = 1 / (1 + np.exp(-np.clip(depth / np.exp(generator.uniform(-3, 1)), -30, 30)))
            values = values * (1 - share * generator.uniform(0.3, 0.75))
    if generator.random() < 0.2 * strength:
        haze = generator.uniform(0.2, 0.7) * (1 + 0.4 * _field(generator, height, width, 3))
        haze = np.clip(haze, 0, 0.85)
        values = values * (1 - haze) + generator.uniform(0.6, 1) * haze
    values = np.clip(values, 0, 1.5) ** np.exp(generator.uniform(-0.8, 0.8) * strength)
    if generator.random() < 0.2 * strength:
        values = values ** generator.uniform(1, 2) * generator.uniform(0.15, 0.5)
        for _ in range(generator.integers(0, 4)):
            x, y, radius = generator.uniform(0, width), generator.uniform(0, height), generator.uniform(5, 60)
            distance = (np.arange(width) - x) ** 2 + (np.arange(height)[:, None] - y) ** 2
            values = values * (1 + generator.uniform(1, 5) * np.exp(-distance / (2 * radius**2)))
    return values


def _field(generator: np.random.Generator, height: int, width: int, cells: int) -> np.ndarray:
    """Smooth random numbers of about unit variance, from a grid of 2 to ``cells`` along a side."""
    cv2 = require("cv2", extra="images")
    count = int(generator.integers(2, cells + 1))
    grid = generator.normal(size=(count, count)).astype(np.float32)
    return cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)


def _blur(generator: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Blur some images as out of focus, others as by a motion."""
    cv2 = require("cv2", extra="images")
    kind = generator.random()
    if kind < 0.3:
        return cv2.GaussianBlur(values, (0, 0), generator.uniform(0.4, 1.6))
    if kind > 0.37:
        return values
    length = int(generator.integers(3, 8))
    line = np.zeros((length, length), np.float32)
    line[length // 2] = 1
    middle = ((length - 1) / 2, (length - 1) / 2)
    line = cv2.warpAffine(line, cv2.getRotationMatrix2D(middle, generator.uniform(0, 180), 1), (length, length))
    return cv2.filter2D(values, -1, line / line.sum())

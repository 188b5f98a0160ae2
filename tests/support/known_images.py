"""Pictures of which the keypoints are known: blobs, corners, and textures turned by a known angle."""

from pathlib import Path

import cv2
import numpy as np
import torch

from patchprint.common.types import Keypoints


def blob(x: float, y: float, sigma: float, width: int = 200, height: int = 160) -> np.ndarray:
    """A bright Gaussian at (x, y), uint8 (H, W)."""
    rows, columns = np.mgrid[:height, :width]
    return np.rint(30 + 200 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * sigma**2))).astype(np.uint8)


def crossing(column: int, row: int, width: int = 200, height: int = 160) -> np.ndarray:
    """Four quadrants like a chess board; they meet between pixels, at (column - 0.5, row - 0.5)."""
    image = np.full((height, width), 60, np.uint8)
    image[row:, column:] = image[:row, :column] = 200
    return cv2.GaussianBlur(image, (0, 0), 0.8)


def corner(column: int, row: int, width: int = 200, height: int = 160) -> np.ndarray:
    """One bright quadrant; its corner lies between pixels, at (column - 0.5, row - 0.5)."""
    image = np.full((height, width), 60, np.uint8)
    image[row:, column:] = 200
    return cv2.GaussianBlur(image, (0, 0), 0.8)


def lopsided_blob(degrees: float, size: int = 160) -> np.ndarray:
    """A bright blob at the centre of a ramp that gets brighter in one direction (from the x axis towards the y axis)."""
    rows, columns = np.mgrid[:size, :size] - (size - 1) / 2
    along = columns * np.cos(np.radians(degrees)) + rows * np.sin(np.radians(degrees))
    return np.rint(np.clip(90 + 1.0 * along + 60 * np.exp(-(rows**2 + columns**2) / 50), 0, 255)).astype(np.uint8)


def texture(height: int = 240, width: int = 260, seed: int = 0) -> np.ndarray:
    """Noise at three scales, uint8 (H, W): full of blobs and corners."""
    rng = np.random.default_rng(seed)
    layers = [cv2.GaussianBlur(rng.normal(size=(height, width)), (0, 0), sigma) for sigma in (2, 4, 8)]
    return np.clip(128 + 40 * sum(layer / layer.std() for layer in layers), 0, 255).astype(np.uint8)


def turned(image: np.ndarray, degrees: float, zoom: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The picture turned by an angle from the x axis towards the y axis, and the 2 x 3 matrix that moves its points."""
    center = ((image.shape[1] - 1) / 2, (image.shape[0] - 1) / 2)
    matrix = cv2.getRotationMatrix2D(center, -degrees, zoom)  # OpenCV turns from x towards -y
    return cv2.warpAffine(image, matrix, image.shape[::-1], flags=cv2.INTER_CUBIC, borderValue=128.0), matrix


def correspondences(
    a: Keypoints, b: Keypoints, matrix: np.ndarray, radius: float = 1.5
) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices (M,), (M,) of keypoints of a and of those nearest to their true position in b, within a radius."""
    moved = a.xy @ torch.from_numpy(matrix[:, :2]).float().T + torch.from_numpy(matrix[:, 2]).float()
    distance, nearest = torch.cdist(moved, b.xy, compute_mode="donot_use_mm_for_euclid_dist").min(1)
    found = torch.nonzero(distance < radius)[:, 0]
    return found, nearest[found]


def write_textures(folder: Path, count: int, height: int, width: int) -> Path:
    """A folder of photos that show nothing in common: ``0.png``, ``1.png``, ..."""
    folder.mkdir()
    for number in range(count):
        cv2.imwrite(str(folder / f"{number}.png"), texture(height, width, number))
    return folder

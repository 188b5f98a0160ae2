"""Training data from images alone: each image is shown again under random homographies and other light.

A view of a point is a keypoint that the detector *found again* where the homography says it must be, with its own small
errors of position, scale and angle; a network trained on projected keypoints would not learn to tolerate them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError, require
from patchprint.common.progress import progress
from patchprint.common.types import Keypoints
from patchprint.data import track_files
from patchprint.data.tracks import Tracks
from patchprint.detectors import check_detector, detect
from patchprint.interop.images import encode_image, limit_size, read_gray, readable_images
from patchprint.ops.geometry import rotation, transport, wrap_angle

MAX_DISTANCE = 2.0  # pixels between where a keypoint must be and where it was found
MAX_SCALE_RATIO = 1.35
MAX_ANGLE = 0.35  # radians


@dataclass(frozen=True)
class View:
    """An image (H, W) uint8 and the homography (3, 3) that takes the original's pixels to its own."""

    image: np.ndarray
    homography: np.ndarray


def render_views(image: np.ndarray, count: int, seed: int, strength: float = 1.0) -> list[View]:
    """Return the image itself, then ``count`` warped and re-lit copies of the same size."""
    cv2 = require("cv2", extra="images")
    generator = np.random.default_rng(seed)
    height, width = image.shape
    views = [View(image, np.eye(3))]
    for _ in range(count):
        homography = random_homography(generator, width, height, strength)
        warped = cv2.warpPerspective(
            image, homography, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
        )
        views.append(View(relight(generator, warped, strength), homography))
    return views


@dataclass(frozen=True, eq=False)
class ImagePair:
    """Two images with keypoints, and where each keypoint of the first lies in the second: (N, 2), not finite = nowhere."""

    images: tuple[np.ndarray, np.ndarray]
    keypoints: tuple[Keypoints, Keypoints]
    truth: Tensor


def warped_pairs(
    images: Iterable[np.ndarray], views: int, seed: int, find: Callable[[np.ndarray], Keypoints], strength: float = 1.0
) -> Iterator[ImagePair]:
    """Yield each image with its warped and re-lit copies; ``find`` detects keypoints in each. The truth is exact."""
    for number, image in enumerate(images):
        original, *copies = render_views(image, views, seed + number, strength)
        keypoints = find(original.image)
        for copy in copies:
            truth = transport(keypoints, copy.homography).xy
            yield ImagePair((original.image, copy.image), (keypoints, find(copy.image)), truth)


def random_homography(generator: np.random.Generator, width: int, height: int, strength: float = 1.0) -> np.ndarray:
    """Return a random rotation, zoom, stretch and tilt about the middle of the image, (3, 3) in pixels."""
    turn = generator.normal(0, 0.35 * strength)
    zoom = np.exp(generator.uniform(-0.45, 0.45) * strength)
    stretch = np.exp(generator.uniform(-0.3, 0.3) * strength)
    direction = generator.uniform(0, np.pi)
    tilt = generator.uniform(-0.35, 0.35, 2) * strength
    along = rotation(direction) @ np.diag([stretch, 1 / stretch]) @ rotation(-direction)
    homography = np.eye(3)
    homography[:2, :2] = zoom * rotation(turn) @ along
    homography[2, :2] = tilt / max(width, height)
    center = np.array([[1, 0, (width - 1) / 2], [0, 1, (height - 1) / 2], [0, 0, 1.0]])
    shift = np.eye(3)
    shift[:2, 2] = generator.uniform(-0.1, 0.1, 2) * strength * (width, height)
    return center @ shift @ homography @ np.linalg.inv(center)


def relight(generator: np.random.Generator, image: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Change the exposure of an image: gamma, contrast, a slope of light, blur, noise and JPEG traces."""
    cv2 = require("cv2", extra="images")
    height, width = image.shape
    value = (image / 255.0) ** np.exp(generator.uniform(-0.5, 0.5) * strength)
    slope = np.linspace(-0.5, 0.5, width)[None, :] * generator.normal(0, 0.25 * strength)
    slope = slope + np.linspace(-0.5, 0.5, height)[:, None] * generator.normal(0, 0.25 * strength)
    contrast = np.exp(generator.uniform(-0.4, 0.3) * strength)
    value = (value - value.mean()) * contrast * (1 + slope) + value.mean() + generator.uniform(-0.1, 0.1) * strength
    if generator.random() < 0.3:
        value = cv2.GaussianBlur(value, (0, 0), generator.uniform(0.4, 1.2))
    value = value + generator.normal(0, generator.uniform(0, 0.02) * strength, value.shape)
    pixels = np.clip(np.round(value * 255), 0, 255).astype(np.uint8)
    quality = int(generator.uniform(50, 95))
    return cv2.imdecode(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_GRAYSCALE)


def find_again(expected: Keypoints, detected: Keypoints) -> torch.Tensor:
    """Return the detected keypoint that is each expected one, (N,) int64; -1 where the detector missed it."""
    if len(detected) == 0:
        return torch.full((len(expected),), -1)
    distance = torch.cdist(expected.xy, detected.xy, compute_mode="donot_use_mm_for_euclid_dist")
    scale = (detected.scale.log()[None, :] - expected.scale.log()[:, None]).abs()
    turn = wrap_angle(detected.angle[None, :] - expected.angle[:, None]).abs()
    cost = distance / MAX_DISTANCE + scale / np.log(MAX_SCALE_RATIO) + turn / MAX_ANGLE
    wrong = (distance > MAX_DISTANCE) | (scale > np.log(MAX_SCALE_RATIO)) | (turn > MAX_ANGLE)
    best = cost.masked_fill(wrong, torch.inf).min(dim=1)
    return torch.where(best.values.isinf(), -1, best.indices)


def make_tracks(
    originals: Iterable[np.ndarray],
    num_views: int,
    seed: int,
    max_keypoints: int = 1500,
    strength: float = 1.0,
    detector: str = "dog-published",
) -> tuple[list[np.ndarray], Tracks]:
    """Return rendered images and the tracks of keypoints found in at least two of them; one scene per image."""
    images: list[np.ndarray] = []
    found: list[Keypoints] = []
    labels: list[Tensor] = []  # image, point and scene of each
    num_points = 0
    for number, source in enumerate(originals):
        views = render_views(source, num_views, seed=seed + number, strength=strength)
        original = _find(source, max_keypoints, detector).unique_places(cell=0.5)
        keypoints, index = [original], [torch.arange(len(original))]
        for view in views[1:]:
            keypoints.append(_find(view.image, 2 * max_keypoints, detector))
            index.append(find_again(transport(original, view.homography), keypoints[-1]))
        seen = torch.stack(index) >= 0
        view, point = (seen & (seen.sum(0) >= 2)).nonzero().T
        found += [keypoints[i][index[i][point[view == i]]] for i in range(len(views))]
        labels.append(torch.stack([len(images) + view, num_points + point, torch.full_like(point, number)]))
        num_points += len(original)
        images.extend(view.image for view in views)
    if not any(map(len, found)):
        raise UserError("no keypoint was found again in any warped image; give images with more texture")
    image, point, scene = torch.cat(labels, 1).numpy()
    frames = {name: torch.cat([getattr(each, name) for each in found]).numpy() for name in ("xy", "scale", "angle")}
    return images, Tracks.from_observations(**frames, image=image, point=point, scene=scene)


def build(
    src: str | Path,
    out: str | Path,
    *,
    views: int = 8,
    seed: int = 0,
    detector: str = "dog-published",
    max_keypoints: int = 1500,
    strength: float = 1.0,
    max_size: int = 1024,
    max_mb: float | None = None,
    strict: bool = False,
    force: bool = False,
) -> None:
    """Single images, each shown again under random homographies and other light.

    Args:
        src: folder with images.
        out: store to write; rendered images are stored losslessly, or as JPEG where their size is limited.
        views: warped copies of each image.
        seed: of everything random.
        detector: what finds the keypoints; a network learns to tolerate the errors of this one.
        max_keypoints: keypoints in an image.
        strength: of warps and light changes, 1 is the usual one.
        max_size: larger images are made smaller first.
        max_mb: encode the images again until they take no more megabytes than this; no limit if not given.
        strict: stop at the first image that cannot be read; by default it is named and left out.
        force: replace the store if it exists.
    """
    check_detector(detector, max_keypoints)
    track_files.check_numbers(max_mb=max_mb, views=views, max_keypoints=max_keypoints, max_size=max_size)
    if not 0 <= strength < np.inf:
        raise UserError(f"--strength is {strength:g}; it must be a number that is not negative")
    names = readable_images(src, strict)
    originals = (
        limit_size(read_gray(Path(src) / name), max_size) for name in progress(names, "warping images", "image")
    )
    images, tracks = make_tracks(originals, views, seed, max_keypoints, strength, detector)
    labels = [f"{name} view {view}" for name in names for view in range(views + 1)]
    encoded = map(encode_image, images)
    track_files.write(out, encoded, tracks, track_files.Names(labels, names), max_mb=max_mb, force=force)


def _find(image: np.ndarray, count: int, detector: str) -> Keypoints:
    return detect(image, detector, max_keypoints=count, spread=False)

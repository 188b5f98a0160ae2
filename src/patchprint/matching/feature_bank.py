"""Features of the images of track stores and of warped copies of them, cached on disk: what a matcher learns from."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common import files
from patchprint.common.errors import require
from patchprint.common.progress import progress
from patchprint.common.safe_io import read_npz
from patchprint.common.types import Keypoints
from patchprint.data import track_files
from patchprint.data.builders.homographies import render_views
from patchprint.detectors import detect
from patchprint.features.model import Model
from patchprint.interop.images import limit_size
from patchprint.matching.calibration import spread_over

FORMAT = 1  # of the cached files
NEAR = 1.5  # pixels between a keypoint and the observation whose track it belongs to
FEWEST = 30  # observations that the camera of an image is computed from
_UNDISTORT_STEPS = 5  # as many as OpenCV takes
LARGEST_ERROR = 2.0  # pixels of most of these observations from where the camera sees their points


@dataclass(frozen=True, kw_only=True)
class BankSettings:
    """What is described of each store: images, evenly spread over it, and copies of each under random homographies.

    Attributes:
        leave_out: numbers of images that are not.
    """

    detector: str = "dog"
    keypoints: int = 2048
    images: int = 100
    copies: int = 1
    max_size: int = 1024
    seed: int = 0
    leave_out: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera with one term of radial distortion.

    Shape:
        intrinsics (3, 3), rotation (3, 3), translation (3,); distortion: of the squared radius.
    """

    intrinsics: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray
    distortion: float

    def undistort(self, xy: np.ndarray) -> np.ndarray:
        """Positions (N, 2) as a camera without distortion sees them."""
        focal, center = self.intrinsics[[0, 1], [0, 1]], self.intrinsics[:2, 2]
        seen = (xy - center) / focal
        straight = seen
        for _ in range(_UNDISTORT_STEPS):
            straight = seen / (1 + self.distortion * (straight**2).sum(-1, keepdims=True))
        return straight * focal + center

    def project(self, xyz: np.ndarray) -> np.ndarray:
        """Positions (N, 2) of points (N, 3) without distortion; infinite behind the camera."""
        seen = xyz @ self.rotation.T + self.translation
        with np.errstate(divide="ignore", invalid="ignore"):
            places = np.where(seen[:, 2:] > 1e-9, seen[:, :2] / seen[:, 2:], np.inf)
        return places * self.intrinsics[0, 0] + self.intrinsics[:2, 2]


@dataclass(frozen=True, eq=False)
class View:
    """Features of an image, or of a warped copy of it.

    Shape:
        xy (N, 2), scale (N,), angle (N,) float32, descriptors (N, D); homography (3, 3) from the image to this copy of it.
    """

    xy: Tensor
    scale: Tensor
    angle: Tensor
    descriptors: Tensor
    homography: np.ndarray

    def to(self, device: torch.device) -> View:
        names = ("xy", "scale", "angle", "descriptors")
        return dataclasses.replace(self, **{name: getattr(self, name).to(device) for name in names})


@dataclass(frozen=True, eq=False)
class BankImage:
    """An image: its views, the first without a warp; where the store has a model, the camera and the points.

    Shape:
        point (N,) int64: the point of the model that each keypoint of the first view shows, or -1; shown (S,): points
        observed in the image.
    """

    views: list[View]
    camera: Camera | None
    point: np.ndarray
    shown: np.ndarray


@dataclass(frozen=True, eq=False)
class BankScene:
    """The described images of a store."""

    name: str
    images: list[BankImage]
    xyz: np.ndarray | None

    def to(self, device: torch.device) -> BankScene:
        """The same with all features on a device."""
        moved = [dataclasses.replace(each, views=[view.to(device) for view in each.views]) for each in self.images]
        return dataclasses.replace(self, images=moved)


def open_bank(stores: Sequence[str | Path], model: Model, settings: BankSettings) -> list[BankScene]:
    """Read the features of stores from the cache, and describe what is not there yet."""
    return [_scene(track_files.read(store), model, settings) for store in stores]


def _scene(stored: track_files.StoredTracks, model: Model, settings: BankSettings) -> BankScene:
    folder = bank_folder(stored, model, settings)
    chosen = [each for each in spread_over(len(stored.sizes), settings.images) if each not in settings.leave_out]
    folder.mkdir(parents=True, exist_ok=True)
    xyz, images = stored.arrays.get("xyz"), []
    for number in progress(chosen, f"features of {stored.folder.name}", "image"):
        path = folder / f"{number:06d}.npz"
        if not path.is_file():
            _describe(stored.image(number), model, settings, number, path)
        views = list(_read(path))
        factor = min(1.0, settings.max_size / max(stored.sizes[number]))
        images.append(_with_model(views, stored, number, factor, xyz, path.with_suffix(".camera.npz")))
    return BankScene(stored.folder.name, images, None if xyz is None else np.asarray(xyz, np.float64))


def bank_folder(stored: track_files.StoredTracks, model: Model, settings: BankSettings) -> Path:
    """Return where the features of a store are cached: ``000007.npz`` and ``000007.camera.npz`` of image 7."""
    return files.cache_folder("matcher") / f"{stored.folder.resolve().name}-{_fingerprint(stored, model, settings)}"


def _fingerprint(stored: track_files.StoredTracks, model: Model, settings: BankSettings) -> str:
    described = {**dataclasses.asdict(settings), "images": 0}  # files of more images go beside those of fewer
    del described["leave_out"]
    told = json.dumps(
        [FORMAT, stored.names.images, stored.offset.tolist(), described, model.info.sha256, model.info.name]
    )
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _describe(pixels: np.ndarray, model: Model, settings: BankSettings, number: int, path: Path) -> None:
    small = limit_size(pixels, settings.max_size)
    rendered = render_views(small, settings.copies, seed=settings.seed + number)
    found = [detect(view.image, settings.detector, max_keypoints=settings.keypoints) for view in rendered]
    keep_views(path, model, [view.image for view in rendered], found, [view.homography for view in rendered])


def keep_views(
    path: Path,
    model: Model,
    images: Sequence[np.ndarray],
    found: Sequence[Keypoints],
    homographies: Sequence[np.ndarray],
) -> None:
    """Describe the keypoints of an image and of its copies, and keep them in a file of the bank."""
    described = [model.describe_keypoints(*each) for each in zip(images, found, strict=True)]
    arrays = {name: torch.cat([getattr(each, name) for each in found]).numpy() for name in ("xy", "scale", "angle")}
    descriptors = torch.cat(described)
    arrays["descriptors"] = (descriptors.half() if descriptors.is_floating_point() else descriptors).cpu().numpy()
    arrays["count"] = np.array([len(each) for each in found])
    arrays["homography"] = np.stack(list(homographies))
    with files.atomic_file(path) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def _read(path: Path) -> Iterator[View]:
    arrays = read_npz(path, "a file of the feature bank")
    counts = arrays["count"].tolist()
    xy, scale, angle, descriptors = (
        torch.from_numpy(arrays[name]).split(counts) for name in ("xy", "scale", "angle", "descriptors")
    )
    for number, homography in enumerate(arrays["homography"]):
        yield View(xy[number], scale[number], angle[number], descriptors[number], homography)


def _with_model(
    views: list[View], stored: track_files.StoredTracks, number: int, factor: float, xyz: np.ndarray | None, kept: Path
) -> BankImage:
    """Add the camera of an image, which is computed once, and the point that each keypoint shows."""
    point = np.full(len(views[0].xy), -1)
    here = np.flatnonzero(stored.arrays["image"] == number)
    if xyz is None or len(here) < FEWEST or len(views[0].xy) == 0:
        return BankImage(views, None, point, point[:0])
    xy = (stored.arrays["xy"][here] + 0.5) * factor - 0.5
    shown = stored.arrays["point"][here]
    if not kept.is_file():
        keep_camera(kept, resect(xyz[shown], xy, (stored.sizes[number] * factor).round()))
    stored_camera = read_npz(kept, "a camera of the feature bank")
    camera = None
    if stored_camera:
        distortion = float(stored_camera.pop("distortion"))
        camera = Camera(**stored_camera, distortion=distortion)
    distance, nearest = torch.cdist(views[0].xy.double(), torch.from_numpy(xy).double()).min(1)
    point = np.where(distance.numpy() <= NEAR, shown[nearest.numpy()], -1)
    return BankImage(views, camera, point, shown)


def keep_camera(path: Path, camera: Camera | None) -> None:
    """Keep the camera of an image in a file of the bank; None: that it has none."""
    values = {} if camera is None else {name: np.asarray(value) for name, value in vars(camera).items()}
    with files.atomic_file(path) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, **values)  # type: ignore[arg-type]


def resect(xyz: np.ndarray, xy: np.ndarray, size: np.ndarray) -> Camera | None:
    """Compute the camera of an image from the points it shows; None where most are not seen where they should be.

    The principal point is the middle of the image, pixels are square.

    Shape:
        xyz (N, 3), xy (N, 2), size (2,) width and height.
    """
    cv2 = require("cv2", extra="images")
    points, places = xyz.astype(np.float64), xy.astype(np.float64)
    # Centered and of unit size, for the digits of the solver.
    middle, unit = np.median(points, 0), float(np.abs(points - np.median(points, 0)).mean())
    normalized = (points - middle) / unit
    flags = cv2.CALIB_USE_INTRINSIC_GUESS | cv2.CALIB_FIX_PRINCIPAL_POINT | cv2.CALIB_FIX_ASPECT_RATIO
    flags |= cv2.CALIB_ZERO_TANGENT_DIST | cv2.CALIB_FIX_K2 | cv2.CALIB_FIX_K3
    best: Camera | None = None
    least = LARGEST_ERROR
    for focal in (1.2, 0.7, 2.0, 4.0):
        intrinsics = np.array(
            [[focal * size.max(), 0, (size[0] - 1) / 2], [0, focal * size.max(), (size[1] - 1) / 2], [0, 0, 1]]
        )
        try:
            _, matrix, terms, turns, shifts = cv2.calibrateCamera(
                [normalized.astype(np.float32)], [places.astype(np.float32)], size.astype(int).tolist(), intrinsics,
                np.zeros(5), flags=flags,
            )  # fmt: skip
        except cv2.error:
            continue
        rotation = cv2.Rodrigues(turns[0])[0]
        translation = shifts[0][:, 0] * unit - rotation @ middle
        camera = Camera(matrix, rotation, translation, float(np.ravel(terms)[0]))
        off = np.linalg.norm(camera.project(points) - camera.undistort(places), axis=1)
        error = float(np.sort(np.nan_to_num(off, nan=np.inf))[len(off) * 4 // 5])
        if error < least:
            best, least = camera, error
        if least < LARGEST_ERROR / 2:
            break
    return best

"""3D reconstruction as in the ETH local feature benchmark, with COLMAP's own SIFT beside it in the same run.

COLMAP's SIFT pipeline runs first. Our prints are then made at the very keypoints in its database, so that only prints and
matching differ: mutual nearest neighbours of all photo pairs, verified and mapped by pycolmap. The ratio test is off by
default, as in SDGMNet's table; ``--ratio 0.8`` is the benchmark's own setting. Dense points need a COLMAP with CUDA.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from patchprint.benchmarks import strecha
from patchprint.benchmarks.images import described, features_of
from patchprint.benchmarks.setup import Setup
from patchprint.errors import UserError
from patchprint.features import match
from patchprint.interop.colmap import read_database
from patchprint.interop.colmap_database import Cameras
from patchprint.interop.colmap_sfm import reconstruct, sift_reconstruction, summarize
from patchprint.interop.images import list_images, read_gray
from patchprint.types import Features, Keypoints

DENSE_SIZE, DENSE_VIEWS = 1200, 5  # longer side of undistorted photos, photos that must agree on a dense point
FEWEST_MATCHES = 15  # pairs with fewer are taken as not matching at all, as in the published benchmark


@dataclass(frozen=True)
class Settings:
    # Where prints are made: at the keypoints of COLMAP's SIFT, or at OpenCV's.
    detector: Literal["colmap", "dog"] = "colmap"
    # Keypoints in each photo; COLMAP keeps some more where points have two angles.
    keypoints: int = 8192
    # Largest quotient of the nearest and second nearest distance; no ratio test if not given.
    ratio: float | None = None


def evaluate(setup: Setup, settings: Settings) -> dict[str, Any]:
    """Sparse model statistics for our prints and for COLMAP's SIFT, with camera errors where the truth is known."""
    folder, images = _images(setup)
    cameras, names = _cameras(setup.data), sorted(images)
    truth = strecha.read_cameras(setup.data / "gt_dense_cameras")
    with _work_folder(setup, {"colmap-sift": settings.keypoints, "names": names}) as work:
        model = sift_reconstruction(folder, work, names, cameras, max_keypoints=settings.keypoints, seed=setup.seed)
        beside = _summary(model, work, len(names), truth)
        found = {image.name: image.keypoints for image in read_database(work / "database.db")}
    features = {name: _features(setup, name, images[name], found[name], settings) for name in names}
    matches = _matches(setup, features, settings)
    with _work_folder(setup, {"model": _model(setup), "names": names, **_choices(settings)}) as work:
        keypoints = {name: features[name].keypoints for name in names}
        model = reconstruct(folder, keypoints, matches, work, cameras, seed=setup.seed)
        ours = {**_summary(model, work, len(names), truth), "dense_points": _dense_points(folder, work)}
    return {**ours, "raw_matches": sum(map(len, matches.values())), "colmap_sift": beside}


def _features(setup: Setup, name: str, image: np.ndarray, found: Keypoints, settings: Settings) -> Features:
    if settings.detector == "dog":
        return features_of(setup, image, name, "dog", settings.keypoints)
    return described(setup, image, found, {"picture": name, "colmap database": settings.keypoints, "seed": setup.seed})


def _images(setup: Setup) -> tuple[Path, dict[str, np.ndarray]]:
    folder = setup.data / "images" if (setup.data / "images").is_dir() else setup.data
    images: dict[str, np.ndarray] = {}
    for name in list_images(folder):
        try:
            images[name] = read_gray(folder / name)
        except ValueError:
            if not setup.skip_bad:
                raise
            setup.skipped.append(name)
    if len(images) < 3:
        raise UserError(f"{folder} holds {len(images)} photos; a reconstruction needs at least 3")
    return folder, images


def _cameras(data: Path) -> Cameras | None:
    """One pinhole camera for all photos where the set brings ``K.txt``, moved to COLMAP's pixel frame."""
    known = strecha.read_intrinsics(data / "K.txt")
    if known is None:
        return None
    fx, fy, cx, cy = known
    return Cameras(single=True, model="PINHOLE", params=f"{fx},{fy},{cx + 0.5},{cy + 0.5}")


def _matches(setup: Setup, features: dict[str, Features], settings: Settings) -> dict[tuple[str, str], np.ndarray]:
    """Mutual nearest neighbours of all pairs of photos, (M, 2) each."""
    pairs = list(itertools.combinations(sorted(features), 2))

    def compute() -> dict[str, np.ndarray]:
        found = {}
        for number, (first, second) in enumerate(tqdm(pairs, desc="photo pairs", disable=None)):
            indices = match(features[first], features[second], ratio=settings.ratio, mutual=True).indices
            found[str(number)] = indices.cpu().numpy() if len(indices) >= FEWEST_MATCHES else np.zeros((0, 2), np.int64)
        return found

    key = {"matches": sorted(features), **_choices(settings)}
    arrays = setup.predictions(key, compute)
    return {pair: arrays[str(number)] for number, pair in enumerate(pairs)}


def _summary(model: Any, work: Path, images: int, truth: dict[str, strecha.Pose]) -> dict[str, Any]:
    from patchprint.interop.colmap import pycolmap

    with pycolmap.Database.open(work / "database.db") as database:
        inliers = np.array(database.read_two_view_geometry_num_inliers()[1])
    scores = {
        **summarize(model, images),
        "inlier_pairs": int((inliers > 0).sum()),
        "inlier_matches": int(inliers.sum()),
    }
    if truth:
        scores["against_true_cameras"] = strecha.camera_errors(strecha.poses_of_model(model), truth)
    return scores


def _dense_points(images: Path, work: Path) -> int | str:
    """Points of the fused depth maps, as the published benchmark counts them; says "not run" without CUDA."""
    from patchprint.interop.colmap import pycolmap

    if not pycolmap.has_cuda:
        return "not run: this pycolmap was built without CUDA"
    dense = work / "dense"
    smaller = pycolmap.UndistortCameraOptions(max_image_size=DENSE_SIZE)
    pycolmap.undistort_images(dense, work / "sparse", images, undistort_options=smaller)
    pycolmap.patch_match_stereo(dense, options=pycolmap.PatchMatchOptions(geom_consistency=False))
    fusion = pycolmap.StereoFusionOptions(min_num_pixels=DENSE_VIEWS)
    fused = pycolmap.stereo_fusion(dense / "fused", dense, input_type="photometric", options=fusion)
    return int(fused.num_points3D())


def _choices(settings: Settings) -> dict[str, Any]:
    return {"keypoints of": settings.detector, "keypoints": settings.keypoints, "ratio": settings.ratio}


def _model(setup: Setup) -> list[Any]:
    return [setup.describer.id.name, setup.describer.id.sha256, setup.describer.patch_scale]


@contextlib.contextmanager
def _work_folder(setup: Setup, key: dict[str, Any]) -> Iterator[Path]:
    """A folder for COLMAP, in which a second run finds the model; a temporary one where nothing is kept."""
    if setup.cache.folder is None:
        with tempfile.TemporaryDirectory(prefix="patchprint-eth-") as name:
            yield Path(name) / "work"
        return
    text = json.dumps({**key, "data": setup.checksum, "seed": setup.seed}, sort_keys=True)
    yield setup.cache.folder / f"sfm-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

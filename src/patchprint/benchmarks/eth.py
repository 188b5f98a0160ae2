"""3D reconstruction as in the ETH local feature benchmark, with COLMAP's own SIFT beside it in the same run.

COLMAP's SIFT pipeline runs first. Our descriptors are then computed at the keypoints in its database, so that only descriptors
and matching differ: mutual nearest neighbors of all image pairs, verified and mapped by pycolmap. The ratio test is off by
default, as in SDGMNet's table; ``--ratio 0.8`` is the benchmark's own setting. Dense points need a COLMAP with CUDA.
"""

import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores, checksum_of
from patchprint.benchmarks._features import KeypointSettings, described, features_of
from patchprint.common.errors import UserError
from patchprint.common.types import Features, Pose
from patchprint.interop import strecha
from patchprint.interop.colmap_database import Cameras
from patchprint.interop.colmap_models import poses_of_model, read_database
from patchprint.interop.colmap_sfm import reconstruct, summarize
from patchprint.interop.colmap_sift import sift_reconstruction
from patchprint.interop.images import list_images
from patchprint.matching import match
from patchprint.matching.keypoint_refinement import refine_model
from patchprint.metrics.geometry import camera_errors

# ETH without ratio test: registered images, thousands of points, track length, reprojection error in pixels, thousands of dense
# points; a row for each method.
_METHODS = ("HardNet", "SOSNet", "HyNet", "SDGMNet")
PUBLISHED: dict[str, tuple[tuple[int, float, float, float, int], ...]] = {
    "herzjesu": (
        (8, 8.7, 4.30, 0.50, 239), (8, 8.7, 4.31, 0.50, 239), (8, 8.9, 4.32, 0.52, 246), (8, 9.0, 4.32, 0.53, 233),
    ),
    "fountain": (
        (11, 16.3, 4.91, 0.47, 303), (11, 16.3, 4.92, 0.46, 306), (11, 16.5, 4.93, 0.48, 303), (11, 16.5, 4.94, 0.48, 295),
    ),
    "south": (
        (128, 159, 5.18, 0.62, 2120), (128, 160, 5.17, 0.63, 2120), (128, 166, 5.14, 0.63, 2120), (128, 166, 5.16, 0.65, 2110),
    ),
    "madrid": (
        (697, 261, 4.16, 0.98, 1270), (675, 240, 4.40, 0.94, 1270), (697, 337, 3.93, 0.98, 1250), (830, 278, 4.18, 0.96, 1300),
    ),
    "gendarmenmarkt": (
        (1018, 827, 2.56, 1.09, 2060), (1129, 729, 3.85, 0.95, 3050),
        (1181, 927, 3.49, 1.05, 2930), (1200, 763, 4.10, 1.02, 3250),
    ),
}  # fmt: skip
# Images of each; SDGMNet's table has 1334 for Madrid.
IMAGES = {"herzjesu": 8, "fountain": 11, "south": 128, "madrid": 1344, "gendarmenmarkt": 1463}

DENSE_SIZE, DENSE_VIEWS = 1200, 5  # longer side of undistorted images, images that must agree on a dense point
FEWEST_MATCHES = 15  # pairs with fewer count as not matching, as in the published benchmark


@dataclass(frozen=True)
class Settings(KeypointSettings):
    # Detector of the keypoints: COLMAP's SIFT (colmap) or another one.
    detector: str = "colmap"
    # Keypoints per image; COLMAP keeps some more where points have two orientations.
    keypoints: int = 8192
    # Threshold of the ratio test; default: no ratio test.
    ratio: float | None = None
    # Align the views of each point by their pixels once the model is made, as `patchprint sfm --refine`.
    refine: bool = False


class Eth(Benchmark):
    """Sparse 3D reconstruction, beside COLMAP's own SIFT."""

    settings = Settings
    lower_is_better = frozenset({"reprojection px"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return sparse model statistics for our descriptors and COLMAP's SIFT, with camera errors if the truth is known."""
        folder, images = _images(run)
        cameras, names = _cameras(run.folder), sorted(images)
        truth = strecha.read_cameras(run.folder / "gt_dense_cameras")
        sift = run.key("COLMAP's SIFT", of_model=False, ignoring=frozenset({"detector", "spread", "ratio", "refine"}))
        with _work_folder(run, sift) as work:
            model = sift_reconstruction(folder, work, names, cameras, max_keypoints=settings.keypoints, seed=run.seed)
            beside = _summary(model, work, len(names), truth)
            found = {image.name: image.keypoints for image in read_database(work / "database.db")}
        features = {
            name: described(run, images[name], found[name], name)
            if settings.detector == "colmap"
            else features_of(run, images[name], name, settings)
            for name in names
        }
        matches = _matches(run, features, settings)
        with _work_folder(run, run.key("model", ignoring=frozenset({"refine"}))) as work:
            keypoints = {name: features[name].keypoints for name in names}
            model = reconstruct(folder, keypoints, matches, work, cameras, seed=run.seed)
            if settings.refine:
                refine_model(model, keypoints, folder)
            ours = {**_summary(model, work, len(names), truth), "dense_points": _dense_points(folder, work)}
        offered = {"keypoints": sum(map(len, keypoints.values())), "raw_matches": sum(map(len, matches.values()))}
        return {**ours, **offered, "colmap_sift": beside}

    def headline(self, scores: Scores) -> dict[str, float]:
        names = ("registered", "points", "observations", "track_length", "reprojection_error_px", "inlier_matches")
        shown = ("registered", "points", "observations", "track length", "reprojection px", "inlier matches")
        dense = scores.get("dense_points")  # a sentence where there is no CUDA
        found = {title: scores[name] for title, name in zip(shown, names, strict=True)}
        return {**found, "dense points": dense} if isinstance(dense, int) else found

    def beside(self, scores: Scores) -> dict[str, Scores]:
        return {"COLMAP's own SIFT": scores["colmap_sift"]}

    def published(self, result: dict[str, Any]) -> dict[str, dict[str, float]]:
        folder = str(result["data"]["path"]).rstrip("/").rsplit("/", 1)[-1].lower()
        scene = next((name for name in PUBLISHED if folder.startswith(name)), None)  # South-Building, Madrid_Metropolis
        if result["settings"]["ratio"] is not None or scene is None or result["scores"]["photos"] != IMAGES[scene]:
            return {}
        names = ("registered", "points", "track length", "reprojection px", "dense points")
        return {
            f"{method} (other keypoints)": dict(
                zip(names, (row[0], row[1] * 1000, *row[2:4], row[4] * 1000), strict=True)
            )
            for method, row in zip(_METHODS, PUBLISHED[scene], strict=True)
        }


def _images(run: Run) -> tuple[Path, dict[str, np.ndarray]]:
    folder = run.folder / "images" if (run.folder / "images").is_dir() else run.folder
    paths = {name: folder / name for name in list_images(folder)}
    images = dict(run.readable(paths))
    if len(images) < 3:
        raise UserError(f"{folder} holds {len(images)} images; a reconstruction needs at least 3")
    return folder, images


def _cameras(data: Path) -> Cameras | None:
    """Return one pinhole camera for all images if the set has ``K.txt``, in COLMAP's pixel frame."""
    known = strecha.read_intrinsics(data / "K.txt")
    if known is None:
        return None
    fx, fy, cx, cy = known
    return Cameras(single_camera=True, camera_model="PINHOLE", camera_params=f"{fx},{fy},{cx + 0.5},{cy + 0.5}")


def _matches(run: Run, features: dict[str, Features], settings: Settings) -> dict[tuple[str, str], np.ndarray]:
    """Return mutual nearest neighbors of all image pairs, (M, 2) each."""
    pairs = list(itertools.combinations(sorted(features), 2))
    matcher = "mutual" if settings.ratio is None else "mutual+ratio"

    def compute() -> dict[str, np.ndarray]:
        found = {}
        for number, (first, second) in enumerate(tqdm(pairs, desc="image pairs", disable=None)):
            indices = match(features[first], features[second], matcher, ratio=settings.ratio).indices
            found[str(number)] = indices.cpu().numpy() if len(indices) >= FEWEST_MATCHES else np.zeros((0, 2), np.int64)
        return found

    arrays = run.predictions("matches", compute)
    return {pair: arrays[str(number)] for number, pair in enumerate(pairs)}


def _summary(model: Any, work: Path, images: int, truth: dict[str, Pose]) -> dict[str, Any]:
    from patchprint.interop.colmap_models import pycolmap

    with pycolmap.Database.open(work / "database.db") as database:
        inliers = np.array(database.read_two_view_geometry_num_inliers()[1])
    scores = {
        **summarize(model, images),
        "inlier_pairs": int((inliers > 0).sum()),
        "inlier_matches": int(inliers.sum()),
    }
    if truth:
        scores["against_true_cameras"] = camera_errors(poses_of_model(model), truth)
    return scores


def _dense_points(images: Path, work: Path) -> int | str:
    """Number of points of the fused depth maps, as in the published benchmark; "not run" without CUDA."""
    from patchprint.interop.colmap_models import pycolmap

    if not pycolmap.has_cuda:
        return "not run: this pycolmap was built without CUDA"
    dense = work / "dense"
    smaller = pycolmap.UndistortCameraOptions(max_image_size=DENSE_SIZE)
    pycolmap.undistort_images(dense, work / "sparse", images, undistort_options=smaller)
    pycolmap.patch_match_stereo(dense, options=pycolmap.PatchMatchOptions(geom_consistency=False))
    fusion = pycolmap.StereoFusionOptions(min_num_pixels=DENSE_VIEWS)
    fused = pycolmap.stereo_fusion(dense / "fused", dense, input_type="photometric", options=fusion)
    return int(fused.num_points3D())


@contextlib.contextmanager
def _work_folder(run: Run, key: dict[str, Any]) -> Iterator[Path]:
    """Yield a work folder for COLMAP, in the cache if there is one, so that a second run finds the model."""
    if run.cache.folder is None:
        with tempfile.TemporaryDirectory(prefix="patchprint-eth-") as name:
            yield Path(name) / "work"
    else:
        yield run.cache.folder / f"sfm-{checksum_of(key)[:24]}"

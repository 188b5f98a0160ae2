"""Which matcher `patchprint sfm` uses by default: points, track length and reprojection error, on training scenes.

    python -m perf.experiments.sfm_matcher --images ../shared/data/photos/entry/images ../shared/data/photos/castle/images \
        ../shared/data/eth/fountain/images --count 10 --max-size 800 --model patchprint.fast --work runs/sfm-matcher \
        --out results/experiments/sfm-matcher.json

The same keypoints and descriptors are matched by each matcher, and COLMAP verifies and maps; COLMAP's own SIFT beside it.
Points in three images or more are counted apart, since a point in two says little. Where a folder
``gt_dense_cameras`` lies beside the images, cameras are compared with the true ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from patchprint.common import files, provenance
from patchprint.features.extract import DescribeSettings
from patchprint.interop import colmap_sfm, colmap_sift, strecha
from patchprint.interop.colmap_database import Cameras
from patchprint.interop.colmap_models import poses_of_model
from patchprint.interop.images import limit_size, list_images, read_color
from patchprint.matching.pair_selection import MatchRule, choose_pairs
from patchprint.metrics.geometry import camera_errors
from patchprint.pipelines.structure_from_motion import FEWEST_MATCHES, TOLERANCE
from patchprint.storage.colmap_output import View
from patchprint.storage.feature_folder import describe_folder
from patchprint.storage.match_folder import match_folder

MATCHERS = {
    "mutual": MatchRule("mutual", fewest=FEWEST_MATCHES),
    "mutual+ratio, calibrated": MatchRule("mutual+ratio", fewest=FEWEST_MATCHES),
    "mutual+ratio, 0.9": MatchRule("mutual+ratio", 0.9, fewest=FEWEST_MATCHES),
    "mutual+ratio, 0.8": MatchRule("mutual+ratio", 0.8, fewest=FEWEST_MATCHES),
    "fginn, calibrated": MatchRule("fginn", fewest=FEWEST_MATCHES),
    "graph": MatchRule("graph", fewest=FEWEST_MATCHES, tolerance=TOLERANCE),
    "graph, 2 px": MatchRule("graph", fewest=FEWEST_MATCHES),
}
CAMERAS = Cameras(single_camera=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, nargs="+", required=True)
    parser.add_argument("--count", type=int, default=10, help="first images of each folder")
    parser.add_argument("--max-size", type=int, default=800)
    parser.add_argument("--model", default="patchprint.fast")
    parser.add_argument("--matchers", nargs="+", choices=MATCHERS, default=list(MATCHERS))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    scores = {folder.parent.name: _scene(folder, given) for folder in given.images}
    settings = {"model": given.model, "images": given.count, "max_size": given.max_size, "detector": "colmap"}
    files.write_json(given.out, provenance.record("sfm-matcher", settings=settings, scores=scores, seed=0).to_json())


def _scene(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    work = given.work / folder.parent.name
    images = work / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name in list_images(folder)[: given.count]:
        pixels = limit_size(read_color(folder / name), given.max_size)
        cv2.imwrite(str((images / name).with_suffix(".png")), pixels[:, :, ::-1])
    truth = {
        Path(name).with_suffix(".png").name: pose
        for name, pose in strecha.read_cameras(folder.parent / "gt_dense_cameras").items()
    }
    settings = DescribeSettings(model=given.model, detector="colmap", max_keypoints=None, device="cpu")
    features = describe_folder(images, work / "features", settings)
    pairs = choose_pairs(features, "exhaustive")
    keypoints = View(features, lambda item: item.keypoints)
    scores = {}
    for number, name in enumerate(given.matchers):
        found = match_folder(features, pairs, work / f"matches-{number}", MATCHERS[name])
        indices = View(found, lambda matches: matches.indices.numpy())
        model = colmap_sfm.reconstruct(images, keypoints, indices, work / f"model-{number}", CAMERAS)
        scores[name] = {"matches": sum(len(each) for each in found.values()), **_measure(model, len(features), truth)}
    model = colmap_sift.sift_reconstruction(images, work / "sift", cameras=CAMERAS)
    return {**scores, "COLMAP's own SIFT": _measure(model, len(features), truth)}


def _measure(model: Any, count: int, truth: dict[str, Any]) -> dict[str, Any]:
    points = list(model.points3D.values())
    numbers = {
        **colmap_sfm.summarize(model, count),
        "points_in_3_images": sum(point.track.length() >= 3 for point in points),
        "median_error_px": round(float(np.median([point.error for point in points])), 4),
    }
    if truth:
        numbers["against_true_cameras"] = camera_errors(poses_of_model(model), truth)
    return numbers


if __name__ == "__main__":
    main()

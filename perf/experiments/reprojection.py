"""Where the reprojection error of a model comes from: two models on the same keypoints, made with different descriptors.

    patchprint sfm IMAGES --matcher mutual --model rootsift --out runs/rootsift    # and --model patchprint
    python -m perf.experiments.reprojection runs/rootsift runs/patchprint --images IMAGES --out OUT.json

Mean errors in pixels of the observations that both models have and of those of one alone, by size of the keypoint and by length
of the track; then the same with ``--refine``: of the views that were aligned with their reference, and of the others.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common import files, provenance
from patchprint.interop import colmap_sfm
from patchprint.interop.colmap_models import read_database, read_model
from patchprint.matching.keypoint_refinement import refine_model

SIGMAS = (0, 1.5, 2, 3, 5, 8, np.inf)
LENGTHS = (2, 3, 4, 6, np.inf)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs=2, type=Path, help="two folders of patchprint sfm")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    found = {folder.name: errors_of(folder) for folder in arguments.models}
    (first, one), (second, other) = found.items()
    common = sorted(one.keys() & other.keys())
    scores: dict[str, Any] = {"observations of both": {"count": len(common)}}
    for name, mine in found.items():
        scores["observations of both"][name] = mean(mine[key][0] for key in common)
    for name, mine, theirs in ((first, one, other), (second, other, one)):
        rows = np.array(list(mine.values()))
        alone = [mine[key][0] for key in mine.keys() - theirs.keys()]
        scores[name] = {
            "all": {"count": len(mine), "px": mean(rows[:, 0])},
            "alone": {"count": len(alone), "px": mean(alone)},
            "by sigma": in_bins(rows[:, 0], rows[:, 1], SIGMAS),
            "by track length": in_bins(rows[:, 0], rows[:, 2], LENGTHS),
            "refined": refined(arguments.models[name == second], arguments.images),
        }
        print(name, scores[name], flush=True)
    data = {"path": [str(folder) for folder in arguments.models], "images": str(arguments.images)}
    result = provenance.record("reprojection", settings={}, scores=scores, data=data, started=started)
    files.write_json(arguments.out, result.to_json())


def errors_of(folder: Path) -> dict[tuple[str, int], tuple[float, float, int]]:
    """Return error in pixels, sigma of the keypoint and length of the track of each observation, by image and keypoint."""
    model = read_model(folder / "model")
    sigma = {entry.name: entry.keypoints.scale.numpy() for entry in read_database(folder / "model/database.db")}
    found = {}
    for number, row, point in zip(*(values.tolist() for values in colmap_sfm.observations(model)), strict=True):
        image, seen = model.images[number], model.points3D[point]
        place = image.project_point(seen.xyz)
        if place is not None:
            error = float(np.linalg.norm(place - image.points2D[row].xy))
            found[image.name, row] = error, float(sigma[image.name][row]), seen.track.length()
    return found


def refined(folder: Path, images: Path) -> dict[str, float]:
    """Refine a model in memory and say what became of it."""
    model = read_model(folder / "model")
    keypoints = {entry.name: entry.keypoints for entry in read_database(folder / "model/database.db")}
    share = refine_model(model, keypoints, images)
    count, error = model.compute_num_observations(), model.compute_mean_reprojection_error()
    return {"aligned": round(share, 4), "count": count, "px": round(error, 4)}


def mean(values: Any) -> float:
    return round(float(np.mean(list(values))), 4)


def in_bins(errors: np.ndarray, sizes: np.ndarray, edges: tuple[float, ...]) -> dict[str, dict[str, float]]:
    found = {}
    for low, high in itertools.pairwise(edges):
        inside = (sizes >= low) & (sizes < high)
        if inside.any():
            found[f"from {low:g}"] = {"count": int(inside.sum()), "px": mean(errors[inside])}
    return found


if __name__ == "__main__":
    main()

"""Photos to a sparse 3D model: describe, match, let COLMAP verify and map; every stage continues where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from patchprint import files
from patchprint.errors import UserError
from patchprint.extras import require
from patchprint.features.folder import DescribeSettings, describe_folder
from patchprint.features.formats import read_matches, write_matches
from patchprint.features.matching import Mode
from patchprint.features.pair_lists import choose_pairs, match_pairs
from patchprint.interop import strecha
from patchprint.interop.colmap import poses_of_model
from patchprint.interop.colmap_database import Cameras
from patchprint.interop.colmap_sfm import KEYPOINTS, MADE_BY, reconstruct, sift_reconstruction, summarize
from patchprint.interop.images import list_images
from patchprint.metrics.cameras import camera_errors

FEWEST_MATCHES = 15  # COLMAP's own limit for a pair of photos
BASELINE = "rootsift"  # what COLMAP's SIFT stores
CONTENTS = (  # of an output folder; features and model carry markers of their own
    "features",
    "features-*.npz",
    "model",
    "model.png",
    "summary.json",
    f"compare/{BASELINE}/features",
    f"compare/{BASELINE}/features-*.npz",
    f"compare/{BASELINE}/model",
    "compare/colmap-sift",
)


@dataclass(frozen=True)
class SfmPlan:
    """What `photos_to_model` does; ``ratio`` None keeps all mutual nearest neighbours."""

    describe: DescribeSettings = field(default_factory=DescribeSettings)
    pairs: str = "exhaustive"
    ratio: float | None = None
    cameras: Cameras = field(default_factory=Cameras)
    compare_sift: bool = False
    workers: int = 1
    seed: int = 0


def images_to_model(
    images: str | Path,
    out: str | Path,
    plan: SfmPlan,
    truth: Path | None = None,
    report: Callable[[str], None] = print,
    force: bool = False,
) -> dict[str, Any]:
    """A COLMAP model of the photos in ``out/model`` with a picture of it, and its numbers.

    With ``compare_sift`` the same keypoints are described with RootSIFT and matched by the same rule, and COLMAP's own SIFT
    pipeline runs as well. ``truth`` is a folder of true cameras in the format of Strecha et al. (NAME.camera). ``force``
    starts again, removing what an earlier call left in ``out``.
    """
    images, out = Path(images), Path(out)
    files.refuse_overlap(out, images, inside=True)
    true_poses = strecha.read_cameras(truth) if truth is not None else {}
    if truth is not None and not true_poses:
        raise UserError(f"{truth} holds no true cameras (NAME.camera)")

    def measure(model: Any, seconds: float) -> dict[str, Any]:
        numbers = {**summarize(model, num_images), "seconds": round(seconds, 1)}
        if true_poses:
            numbers["against_true_cameras"] = camera_errors(poses_of_model(model), true_poses)
        return numbers

    list_images(images)  # says what is wrong with them before anything is removed
    with files.only_writer(out):
        files.claim_folder(out, MADE_BY, CONTENTS, force=force)
        started = time.monotonic()
        model, names = _with_descriptors(images, out / "features", out / "model", plan, report)
        num_images = len(names)
        summary: dict[str, Any] = {plan.describe.model: measure(model, time.monotonic() - started)}
        draw_model(model, out / "model.png")
        if plan.compare_sift:
            same_keypoints = replace(plan, describe=replace(plan.describe, model=BASELINE))
            report(f"the same keypoints with {BASELINE}")
            started, place = time.monotonic(), out / "compare" / BASELINE
            other, _ = _with_descriptors(images, place / "features", place / "model", same_keypoints, report)
            summary[f"{BASELINE}, same keypoints"] = measure(other, time.monotonic() - started)
            report("COLMAP's own SIFT")
            started, place = time.monotonic(), out / "compare" / "colmap-sift"
            count = plan.describe.max_keypoints or KEYPOINTS
            other = sift_reconstruction(images, place, names, plan.cameras, max_keypoints=count, seed=plan.seed)
            summary["COLMAP SIFT"] = measure(other, time.monotonic() - started)
    return summary


def draw_model(model: Any, path: Path) -> None:
    """The points with their colours and the cameras (red), from the front and from above."""
    pyplot = require("matplotlib.figure", extra="images")
    points = np.array([point.xyz for point in model.points3D.values()]).reshape(-1, 3)
    colors = np.array([point.color for point in model.points3D.values()]).reshape(-1, 3) / 255
    views = [model.images[i] for i in model.reg_image_ids()]
    centers = np.array([view.projection_center() for view in views]).reshape(-1, 3)
    # Turned as the first photo looks: x to the right, y down, z away from the camera.
    rotation = views[0].cam_from_world().rotation.matrix()
    middle, reach = np.median(points, 0), np.quantile(np.abs(points - np.median(points, 0)), 0.98)
    kept = (np.abs(points - middle) < 2 * reach).all(1)
    points, colors = (points[kept] - middle) @ rotation.T, colors[kept]
    centers = (centers - middle) @ rotation.T
    figure = pyplot.Figure(figsize=(12, 6), layout="constrained")
    for axes, (across, down), title in zip(figure.subplots(1, 2), [(0, 1), (0, 2)], ["front", "above"], strict=True):
        axes.scatter(points[:, across], points[:, down], s=1, c=colors, linewidths=0)
        axes.scatter(centers[:, across], centers[:, down], s=18, c="#d0402b", marker="^")
        seen = f"{len(points)} of {len(kept)} points, {len(centers)} cameras"
        axes.set(title=f"{title}: {seen}", aspect="equal", xticks=[], yticks=[])
        if title == "front":
            axes.invert_yaxis()
    with files.atomic_file(path) as temporary:
        figure.savefig(temporary, dpi=110, format="png")


def _with_descriptors(
    images: Path, features_folder: Path, model_folder: Path, plan: SfmPlan, report: Callable[[str], None]
) -> tuple[Any, list[str]]:
    features = describe_folder(images, features_folder, plan.describe, plan.workers, report=report)
    names = list(features)
    if len(names) < 2:
        raise UserError(f"{images} holds {len(names)} readable photo; a 3D model needs at least two, better three")
    pairs = choose_pairs(names, plan.pairs)
    mode: Mode = "mutual" if plan.ratio is None else "mutual+ratio"
    rule = mode if plan.ratio is None else f"ratio-{plan.ratio}"
    kept = features_folder.with_name(f"{features_folder.name}-{rule}.npz")
    found = read_matches(kept) if kept.is_file() else {}
    if list(found) != pairs:
        found = match_pairs(features, pairs, mode, plan.ratio, fewest=FEWEST_MATCHES, device=plan.describe.device)
        write_matches(features, found, kept, force=True)
    keypoints = {name: item.keypoints for name, item in features.items()}
    indices = {pair: matches.indices.numpy() for pair, matches in found.items()}
    return reconstruct(images, keypoints, indices, model_folder, plan.cameras, seed=plan.seed), names

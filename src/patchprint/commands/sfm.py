"""``patchprint sfm PHOTOS --out OUT``: photos to a COLMAP model in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from patchprint import files, provenance
from patchprint.commands.output import emit, say, table
from patchprint.devices import choose_device
from patchprint.features import load
from patchprint.features.folder import DescribeSettings
from patchprint.features.model import DEFAULT_MODEL
from patchprint.interop.colmap_database import Cameras
from patchprint.interop.colmap_sfm import KEYPOINTS
from patchprint.pipelines.sfm import SfmPlan, images_to_model


def main(
    images: tyro.conf.Positional[Path],
    /,
    out: Path,
    model: str = DEFAULT_MODEL,
    detector: Annotated[
        str, tyro.conf.arg(help="what finds keypoints; the affine ones for views from far apart")
    ] = "colmap",
    max_keypoints: int | None = None,
    upright: bool = False,
    spread: bool = True,
    pairs: str = "exhaustive",
    ratio: float | None = None,
    single_camera: bool = False,
    camera_model: str = "SIMPLE_RADIAL",
    camera_params: str = "",
    compare_sift: bool = False,
    truth: Path | None = None,
    workers: int = 1,
    device: str = "auto",
    seed: int = 0,
    force: bool = False,
    json: bool = False,
) -> int:
    """Photos to a COLMAP model.

    Args:
        images: folder of overlapping photos of one scene
        out: folder for features/, model/ (database.db and sparse/), model.png and summary.json; continues where it stopped
        model: shipped weights (hardnet.small is the fast one), a baseline, or a weight file
        max_keypoints: per photo; default 8192, to which the detector colmap adds second orientations, as COLMAP does
        upright: ignore the orientation of keypoints
        spread: keep the strongest keypoints wherever they are; by default every part of a photo gets its share
        pairs: exhaustive, or a text file with two names per line
        ratio: ratio test on top of mutual nearest neighbours; off by default, COLMAP's verification does the work
        single_camera: all photos come from one camera with one focal length
        camera_model: COLMAP's name of the camera model
        camera_params: start values of the camera, separated by commas
        compare_sift: also RootSIFT on the same keypoints, and COLMAP's own SIFT
        truth: folder of true cameras (NAME.camera, Strecha et al.) to compare positions with
        workers: processes that describe photos side by side
        device: auto, cpu, cuda or mps
        seed: of everything random
        force: start again, removing what is there
        json: print the result as JSON
    """
    if max_keypoints is None and detector != "colmap":
        max_keypoints = KEYPOINTS
    settings = DescribeSettings(model, detector, max_keypoints, upright, spread, device=str(choose_device(device)))
    cameras = Cameras(single_camera, camera_model, camera_params)
    plan = SfmPlan(settings, pairs, ratio, cameras, compare_sift, workers, seed)
    summary = images_to_model(images, out, plan, truth, report=say, force=force)
    used = load(model)
    result = provenance.record(
        "sfm",
        settings={
            "detector": detector,
            "max_keypoints": max_keypoints,
            "ratio": ratio,
            "pairs": pairs,
            "upright": upright,
            "spread": spread,
        },
        model={"name": used.id.name, "sha256": used.id.sha256},
        data={"path": str(images), "sha256": provenance.sha256_of_folder(images)},
        seed=seed,
        scores=summary,
    ).to_json()
    files.write_json(out / "summary.json", result)
    emit(result, json, _table(summary))
    say(f"model: {out / 'model' / 'sparse'}   picture: {out / 'model.png'}")
    return 0


def _table(summary: dict[str, dict[str, Any]]) -> str:
    header = ["prints", "registered", "points", "observations", "track", "error px", "seconds"]
    rows = [
        [
            name,
            f"{numbers['registered']}/{numbers['photos']}",
            numbers["points"],
            numbers["observations"],
            f"{numbers['track_length']:.2f}",
            f"{numbers['reprojection_error_px']:.3f}",
            numbers["seconds"],
        ]
        for name, numbers in summary.items()
    ]
    return table(header, rows)

"""``patchprint sfm PHOTOS --out OUT``: photos to a COLMAP model in one command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from patchprint.cli.output import emit, say, table
from patchprint.cli.ray_options import device_there, where_and_how
from patchprint.common import files, provenance
from patchprint.common.errors import UserError
from patchprint.common.progress import json_lines
from patchprint.features.model import DEFAULT_MODEL
from patchprint.interop.colmap_database import Cameras
from patchprint.interop.colmap_sfm import KEYPOINTS, Mapper
from patchprint.networks.engines import AUTO
from patchprint.pipelines.sfm_folder import FEATURES, MODEL, SfmFolder
from patchprint.pipelines.sfm_page import page
from patchprint.pipelines.structure_from_motion import MEMORY_GB, SfmPlan, add_images, images_to_model
from patchprint.report.page import write
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.feature_folder import DescribeSettings


def main(
    images: tyro.conf.Positional[Path],
    /,
    out: Path,
    into: Path | None = None,
    model: str = DEFAULT_MODEL,
    detector: Annotated[
        str, tyro.conf.arg(help="what finds keypoints; the affine ones for views from far apart")
    ] = "colmap",
    max_keypoints: int | None = None,
    upright: bool = False,
    spread: bool = True,
    masks: Path | None = None,
    pairs: str = "exhaustive",
    neighbors: int | None = None,
    ratio: float | None = None,
    single_camera: bool = False,
    camera_model: str = "SIMPLE_RADIAL",
    camera_params: str = "",
    compare_sift: bool = False,
    truth: Path | None = None,
    strict: bool = False,
    workers: int = 1,
    memory: float = MEMORY_GB,
    mapper: Mapper = "incremental",
    device: str = "auto",
    engine: str = AUTO,
    address: str | None = None,
    progress: Path | None = None,
    seed: int = 0,
    force: bool = False,
    json: bool = False,
) -> int:
    """Photos to a COLMAP model, or more photos into a model that is there.

    Args:
        images: folder of overlapping photos of one scene
        out: folder for features/, model/ (database.db and sparse/), report.html (the scene to turn), model.png, points.ply
            and summary.json; continues where it stopped
        into: output folder of an earlier run: its model with those of the photos that are new to it. It stays as it is, its
            cameras stay where they are, and photos are described as it says
        model: shipped weights (sdgmnet.fast is the fast one), a baseline, or a weight file
        max_keypoints: per photo; default 8192, to which the detector colmap adds second orientations, as COLMAP does
        upright: ignore the orientation of keypoints
        spread: keep the strongest keypoints wherever they are; by default every part of a photo gets its share
        masks: folder of masks, NAME.png for the photo NAME (a.jpg: a.jpg.png or a.png); no keypoints where a mask is black
        pairs: exhaustive; sequential (each photo with those that follow it by name); retrieval (with those that look most like
            it); or a text file with two names per line
        neighbors: how many photos each is paired with; default 15 that follow (sequential), 30 that look like it (retrieval)
        ratio: ratio test on top of mutual nearest neighbours; off by default, COLMAP's verification does the work
        single_camera: all photos come from one camera with one focal length
        camera_model: COLMAP's name of the camera model
        camera_params: start values of the camera, separated by commas
        compare_sift: also RootSIFT on the same keypoints, and COLMAP's own SIFT
        truth: folder of true cameras (NAME.camera, Strecha et al.) to compare positions with
        strict: stop at the first photo that cannot be read; by default it is named and left out
        workers: processes that describe photos side by side, as far as the memory allows
        memory: gigabytes that finding keypoints may take, side by side (one photo of 6 megapixels takes 2), and later the
            parts that a hierarchical mapper works on
        mapper: how COLMAP puts photos together: incremental, one after the other; hierarchical, in parts, for thousands;
            global, all at once
        device: auto, cpu, cuda or mps
        engine: how a network is computed; float32 is exact; auto: bfloat16 where the CPU has it, cuda on a GPU, int8 for 50
            photos and more where OpenVINO is installed; ray: photos are described and matched on all cores or GPUs of a Ray
            cluster
        address: HOST:PORT of the cluster, or auto for the one on this machine; default: a Ray of its own on this machine
        progress: file for JSON lines that say how far it is
        seed: of everything random
        force: start again, removing what is there
        json: print the result as JSON
    """
    if max_keypoints is None and detector != "colmap":
        max_keypoints = KEYPOINTS
    cluster, engine = where_and_how(engine, address)
    where = device_there(device, cluster)
    mask_folder = str(masks.resolve()) if masks else ""
    settings = DescribeSettings(
        model, detector, max_keypoints, upright, spread, device=where, engine=engine, masks=mask_folder
    )
    cameras = Cameras(single_camera, camera_model, camera_params)
    plan = SfmPlan(settings, pairs, ratio, cameras, compare_sift, workers, seed, neighbors, memory, strict)
    plan = replace(plan, mapper=mapper, cluster=cluster)
    with json_lines(progress):
        if into is None:
            summary = images_to_model(images, out, plan, truth, report=say, force=force)
        else:
            _refuse_other_settings(settings, into)
            summary = add_images(images, into, out, plan, truth, report=say, force=force)
    made = FeatureFolder(out / FEATURES)
    result = provenance.record(
        "sfm",
        settings={
            **made.manifest["settings"],
            "ratio": ratio,
            "pairs": pairs,
            "neighbors": neighbors,
            "mapper": mapper,
        },
        model=made.manifest["model"],
        data={
            "path": str(images),
            "sha256": provenance.sha256_of_folder(images),
            "into": None if into is None else str(into),
            "left_out": made.left_out,
        },
        seed=seed,
        scores=summary,
    ).to_json()
    files.write_json(out / "summary.json", result)
    write(page(result, out), out / "report.html")
    emit(result, json, _table(summary))
    say(f"model: {out / MODEL / 'sparse'}   points: {out / 'points.ply'}   report: {out / 'report.html'}")
    return 0


def _refuse_other_settings(given: DescribeSettings, into: Path) -> None:
    """Raise UserError for a flag that says how to describe photos and contradicts the model that they are added to."""
    default, there = DescribeSettings(detector="colmap", max_keypoints=None), SfmFolder.open(into).settings()
    for name in ("model", "detector", "max_keypoints", "upright", "spread"):
        value, known = getattr(given, name), getattr(there, name)
        if value not in (known, getattr(default, name)):
            flag = name.replace("_", "-")
            raise UserError(f"the photos of {into} were described with {flag} {known}, not {value}; leave --{flag} out")


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

"""Photos to a sparse 3D model: describe, match, let COLMAP verify and map; every stage continues where it stopped."""

from __future__ import annotations

import filecmp
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.optional import require
from patchprint.common.progress import note
from patchprint.interop import colmap_sfm, strecha
from patchprint.interop.colmap_database import Cameras
from patchprint.interop.colmap_models import poses_of_model
from patchprint.interop.colmap_sfm import KEYPOINTS, MADE_BY, MEMORY_GB, Mapper, summarize
from patchprint.interop.image_files import list_images
from patchprint.interop.ray_cluster import Cluster
from patchprint.matching.nearest_neighbors import Mode, check_ratio
from patchprint.matching.pair_selection import MatchRule, Pair, check_pairs, choose_pairs
from patchprint.metrics.geometry import camera_errors
from patchprint.pipelines.sfm_folder import FEATURES, MODEL, SfmFolder
from patchprint.report.reconstruction import draw_model
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.feature_folder import DescribeSettings, check_settings, describe_folder
from patchprint.storage.lazy_mapping import View
from patchprint.storage.match_folder import match_folder

FEWEST_MATCHES = 15  # COLMAP's own limit for a pair of photos
BASELINE = "rootsift"  # what COLMAP's SIFT stores
CONTENTS = (  # of an output folder; features and model carry markers of their own
    FEATURES,
    f"{FEATURES}-*",
    MODEL,
    "model.png",
    "points.ply",
    "summary.json",
    "report.html",
    f"compare/{BASELINE}/{FEATURES}",
    f"compare/{BASELINE}/{FEATURES}-*",
    f"compare/{BASELINE}/{MODEL}",
    "compare/colmap-sift",
)


@dataclass(frozen=True)
class SfmPlan:
    """What `images_to_model` and `add_images` do.

    ``ratio`` None keeps all mutual nearest neighbors; ``pairs`` and ``neighbors`` are those of ``choose_pairs``; ``memory_gb``
    bounds how many photos are searched for keypoints side by side, and how large the parts of a hierarchical ``mapper`` are;
    ``strict`` stops at a photo that cannot be read; photos are described and matched on a ``cluster`` where one is given.
    """

    describe: DescribeSettings = field(default_factory=DescribeSettings)
    pairs: str = "exhaustive"
    ratio: float | None = None
    cameras: Cameras = field(default_factory=Cameras)
    compare_sift: bool = False
    workers: int = 1
    seed: int = 0
    neighbors: int | None = None
    memory_gb: float = MEMORY_GB
    strict: bool = False
    mapper: Mapper = "incremental"
    cluster: Cluster | None = None


def images_to_model(
    images: str | Path,
    out: str | Path,
    plan: SfmPlan,
    truth: Path | None = None,
    report: Callable[[str], None] = note,
    force: bool = False,
) -> dict[str, Any]:
    """A COLMAP model of the photos in ``out/model`` with a picture of it and its points, and its numbers.

    With ``compare_sift`` the same keypoints are described with RootSIFT and matched by the same rule, and COLMAP's own SIFT
    pipeline runs as well. ``truth`` is a folder of true cameras in the format of Strecha et al. (NAME.camera). ``force``
    starts again, removing what an earlier call left in ``out``.
    """
    images, out = Path(images), Path(out)
    files.refuse_overlap(out, images, inside=True)
    names = list_images(images)
    _check(images, names, names, plan)
    true_poses = _read_truth(truth)
    with files.only_writer(out):
        files.claim_folder(out, MADE_BY, CONTENTS, force=force)
        started = time.monotonic()
        model, features = _with_descriptors(images, out, plan, report)
        num_images = len(features)
        summary = {plan.describe.model: _measure(model, num_images, true_poses, started)}
        _write_views(model, out)
        if plan.compare_sift:
            same_keypoints = replace(plan, describe=replace(plan.describe, model=BASELINE))
            report(f"the same keypoints with {BASELINE}")
            started = time.monotonic()
            other, _ = _with_descriptors(images, out / "compare" / BASELINE, same_keypoints, report)
            summary[f"{BASELINE}, same keypoints"] = _measure(other, num_images, true_poses, started)
            report("COLMAP's own SIFT")
            started = time.monotonic()
            other = colmap_sfm.sift_reconstruction(
                images,
                out / "compare" / "colmap-sift",
                list(features),
                plan.cameras,
                max_keypoints=plan.describe.max_keypoints or KEYPOINTS,
                seed=plan.seed,
                threads=colmap_sfm.photos_at_once(
                    images, features, plan.memory_gb, os.cpu_count() or 1, colmap_sfm.MAX_IMAGE_SIZE
                ),
            )
            summary["COLMAP SIFT"] = _measure(other, num_images, true_poses, started)
    return summary


def add_images(
    images: str | Path,
    base: str | Path,
    out: str | Path,
    plan: SfmPlan,
    truth: Path | None = None,
    report: Callable[[str], None] = note,
    force: bool = False,
) -> dict[str, Any]:
    """The model in ``base``, which stays as it is, with the photos of ``images`` that it does not know yet, in ``out``.

    ``base`` is what `images_to_model` or this function wrote. ``images`` may hold the photos of ``base`` too, as a folder
    does that has grown. Photos are described as those of ``base`` were (``plan.describe`` gives the device and the masks
    alone), and the cameras of ``base`` stay where they are.
    """
    images, base, out = Path(images), Path(base), Path(out)
    for read in (images, base):
        files.refuse_overlap(out, read, inside=True)
    if plan.compare_sift:
        raise UserError("SIFT is compared on photos that are all new; leave the comparison out where photos are added")
    if plan.mapper != "incremental":
        raise UserError("photos are added to a model one after the other; leave --mapper out")
    known = SfmFolder.open(base)
    known.describer()
    plan = replace(plan, describe=replace(known.settings(plan.describe.device), masks=plan.describe.masks))
    new = _new_names(images, known.features)
    _check(images, new, [*known.features, *new], plan)
    true_poses = _read_truth(truth)
    with files.only_writer(out):
        files.claim_folder(out, MADE_BY, CONTENTS, force=force)
        started = time.monotonic()
        model, features = _with_descriptors(images, out, plan, report, known, new)
        summary = {plan.describe.model: _measure(model, len(features), true_poses, started)}
        _write_views(model, out)
    return summary


def _check(images: Path, names: list[str], all_names: list[str], plan: SfmPlan) -> None:
    """Raise UserError for whatever would stop the work later: packages, cameras, pairs, settings."""
    plan.cameras.check()  # also says that pycolmap is missing
    colmap_sfm.check_mapper(plan.mapper)
    for needed in ("matplotlib.figure", "jinja2"):
        require(needed, extra="images")
    if plan.ratio is not None:
        check_ratio(plan.ratio)
    if plan.workers < 1:
        raise UserError(f"at least 1 worker is needed, got {plan.workers}")
    if plan.compare_sift and plan.describe.masks:
        raise UserError("COLMAP's own SIFT is compared on whole photos; leave out --compare-sift or --masks")
    colmap_sfm.photos_at_once(images, [], plan.memory_gb, 1)
    check_pairs(all_names, plan.pairs, plan.neighbors)
    check_settings(plan.describe, images, names)


def _read_truth(truth: Path | None) -> dict[str, Any]:
    poses = strecha.read_cameras(truth) if truth is not None else {}
    if truth is not None and not poses:
        raise UserError(f"{truth} holds no true cameras (NAME.camera)")
    return poses


def _measure(model: Any, num_images: int, true_poses: dict[str, Any], started: float) -> dict[str, Any]:
    numbers = {**summarize(model, num_images), "seconds": round(time.monotonic() - started, 1)}
    if true_poses:
        numbers["against_true_cameras"] = camera_errors(poses_of_model(model), true_poses)
    return numbers


def _write_views(model: Any, out: Path) -> None:
    draw_model(model, out / "model.png")
    colmap_sfm.write_ply(model, out / "points.ply")


def _new_names(images: Path, known: FeatureFolder) -> list[str]:
    """The photos that are not known; another photo under a known name is refused."""
    new = []
    old_folder = Path(known.manifest["photos_folder"])
    for name in list_images(images):
        if name not in known:
            new.append(name)
        elif not any(_is_same(images / name, other) for other in (old_folder / name, known[name].image_path)):
            raise UserError(f"the model has another photo {name} than {images / name}; rename one of them")
    if not new:
        raise UserError(f"all photos of {images} are in the model {known.folder.parent} already")
    return new


def _is_same(file: Path, other: Path | None) -> bool:
    return other is not None and other.is_file() and (file.samefile(other) or filecmp.cmp(file, other, shallow=False))


def _with_descriptors(
    images: Path,
    out: Path,
    plan: SfmPlan,
    report: Callable[[str], None],
    base: SfmFolder | None = None,
    new: list[str] | None = None,
) -> tuple[Any, FeatureFolder]:
    """The model in ``out`` and the features of its photos; with a ``base``, of the photos in it and the ``new`` ones."""
    names = list_images(images) if new is None else new
    workers = colmap_sfm.photos_at_once(images, names, plan.memory_gb, plan.workers)
    if workers < plan.workers:
        report(f"{workers} workers instead of {plan.workers}, so that memory stays below {plan.memory_gb:g} GB")
    report(f"1/3  describing {len(names)} photos with {plan.describe.model}")
    known = None if base is None else base.features
    features = describe_folder(
        images,
        out / FEATURES,
        plan.describe,
        workers,
        names,
        report,
        strict=plan.strict,
        known=known,
        cluster=plan.cluster,
    )
    if len(features) < 2:
        raise UserError(f"{images} holds {len(features)} readable photo; a 3D model needs at least two, better three")
    pairs = _choose_pairs(features, plan, names if base is not None else list(features))
    report(f"2/3  matching {len(pairs)} pairs")
    matches = _match(features, pairs, out, plan, report)
    report("3/3  COLMAP verifies and maps")
    keypoints = View(features, lambda item: item.keypoints, [name for name in names if name in features])
    if base is None:
        model = colmap_sfm.reconstruct(
            images,
            keypoints,
            matches,
            out / MODEL,
            plan.cameras,
            seed=plan.seed,
            mapper=plan.mapper,
            memory_gb=plan.memory_gb,
        )
        return model, features
    model = colmap_sfm.extend(
        base.folder / MODEL, images, keypoints, matches, out / MODEL, plan.cameras, seed=plan.seed
    )
    return model, features


def _choose_pairs(features: FeatureFolder, plan: SfmPlan, new: list[str]) -> list[Pair]:
    """The pairs of the plan in which at least one photo is new; of a list, those whose photos could be read."""
    pairs = choose_pairs(features, plan.pairs, plan.neighbors, plan.seed, features.left_out)
    return [pair for pair in pairs if not set(pair).isdisjoint(new)]


def _match(
    features: FeatureFolder, pairs: list[Pair], out: Path, plan: SfmPlan, report: Callable[[str], None]
) -> Mapping[Pair, np.ndarray]:
    """Indices of matches by pair, read from the disk when they are asked for; those of other pairs are replaced."""
    mode: Mode = "mutual" if plan.ratio is None else "mutual+ratio"
    rule = MatchRule(mode, plan.ratio, fewest=FEWEST_MATCHES)
    kept = out / f"{FEATURES}-{mode if plan.ratio is None else f'ratio-{plan.ratio}'}"
    device = plan.describe.device
    found = match_folder(features, pairs, kept, rule, device, plan.cluster, disposable=True, report=report)
    return View(found, lambda matches: matches.indices.numpy())

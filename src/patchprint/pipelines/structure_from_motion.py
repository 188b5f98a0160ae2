"""Images to a sparse 3D model: describe, match, let COLMAP verify and map; every stage resumes where it stopped."""

import filecmp
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from patchprint.common import files, provenance
from patchprint.common.errors import UserError, require
from patchprint.common.progress import note
from patchprint.features.extract import DescribeSettings
from patchprint.interop import colmap_sfm
from patchprint.interop.colmap_database import Cameras
from patchprint.interop.colmap_sfm import KEYPOINTS, MADE_BY, MEMORY_GB, Mapper
from patchprint.interop.images import list_images
from patchprint.interop.ray_cluster import Cluster
from patchprint.matching.keypoint_refinement import refine_model
from patchprint.matching.matchers import MatchSettings, has_option
from patchprint.matching.pair_selection import MatchRule, check_pairs, choose_pairs
from patchprint.pipelines.sfm_folder import CALLS, FEATURES, MODEL, SUMMARY, SfmFolder, recorded_calls
from patchprint.storage.colmap_output import View
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.feature_folder import describe_folder, load_describer
from patchprint.storage.match_folder import match_folder

FEWEST_MATCHES = 15  # COLMAP's own limit for a pair of images
TOLERANCE = 1.0  # pixels; a matcher's own is for two images, where wrong matches do not pull at the points of others
CONTENTS = (FEATURES, f"{FEATURES}-*", MODEL, CALLS, SUMMARY, "model.png", "points.ply", "report.html")
COLMAP_KEYPOINTS = DescribeSettings(detector="colmap", max_keypoints=None)


@dataclass(frozen=True, kw_only=True)
class SfmSettings:
    """How images become a 3D model."""

    # How keypoints are detected and described.
    describe: DescribeSettings = COLMAP_KEYPOINTS
    # How descriptors are matched; mutual gives more points, at 1.5 to 1.9 times the reprojection error of mutual+ratio.
    matcher: str = "mutual+ratio"
    # Threshold of the ratio test; default: the calibrated one of the model, else 0.8.
    ratio: float | None = None
    # Which images are matched: exhaustive; sequential (each with those that follow it by name); retrieval (each with those that
    # look most like it); gps (each with the nearest by EXIF data); or a text file with two names per line.
    pairs: str = "exhaustive"
    # How many images each is matched with; default: 15 that follow (sequential), 20 (retrieval, gps).
    neighbors: int | None = None
    # How COLMAP initializes cameras.
    cameras: Cameras = field(default_factory=Cameras)
    # How COLMAP maps: incremental, one image after the other; hierarchical, in parts, for thousands; global, all at once.
    mapper: Mapper = "incremental"
    # Align the views of each point by their pixels once the model is made, and adjust cameras and points again: smaller
    # reprojection errors. Each image is read twice more.
    refine: bool = False
    # Processes that describe images side by side, as far as the memory allows.
    workers: int = 1
    # Gigabytes for detecting keypoints side by side (an image of 6 megapixels takes 2), and for a hierarchical mapper's parts.
    memory: float = MEMORY_GB
    # Stop at the first image that cannot be read; by default it is named and left out.
    strict: bool = False
    # Seed of everything random.
    seed: int = 0

    def __post_init__(self) -> None:
        if self.describe.max_keypoints is None and self.describe.detector != "colmap":
            object.__setattr__(self, "describe", replace(self.describe, max_keypoints=KEYPOINTS))
        if self.describe.exif:
            raise UserError(
                "COLMAP reads images as they are stored; leave --exif out, or rotate the files first (mogrify -auto-orient)"
            )
        MatchSettings(matcher=self.matcher, ratio=self.ratio)
        colmap_sfm.check_mapper(self.mapper)
        if self.workers < 1:
            raise UserError(f"at least 1 worker is needed, got {self.workers}")
        colmap_sfm.max_parallel_images("", (), self.memory, 1)  # checks the memory


def sfm(
    images: str | Path,
    out: str | Path,
    settings: SfmSettings | None = None,
    *,
    into: str | Path | None = None,
    masks: str | Path | None = None,
    cluster: Cluster | None = None,
    force: bool = False,
    report: Callable[[str], None] = note,
) -> SfmFolder:
    """Reconstruct a sparse 3D model with COLMAP from learned features.

    A second call with the same arguments resumes where the first one stopped.

    Args:
        images: folder of overlapping images of one scene.
        out: folder for ``features/``, ``model/`` (``database.db`` and ``sparse/``), ``report.html``, ``model.png``,
            ``points.ply`` and ``summary.json``.
        into: output folder of an earlier call. Its model, with the images that are new to it, goes to ``out``; it stays as it
            is, its cameras keep their places, and images are described as it was made (``settings`` give the device only).
            ``images`` may hold the old images too.
        masks: folder of masks (NAME.png for the image NAME); keypoints are not detected where a mask is black.
        cluster: Ray cluster on which images are described and matched.
        force: start again, removing what an earlier call left in ``out``.
        report: called with messages for the user.

    Raises:
        UserError: where the settings or images cannot work, before anything is written; where no model can be made.
    """
    images, out, settings = Path(images), Path(out), settings or SfmSettings()
    for read in (images, *([] if into is None else [Path(into)])):
        files.refuse_overlap(out, read, inside=True)
    base = None if into is None else SfmFolder.open(into)
    names = list_images(images)
    if base is not None:
        settings = _as_described(base, settings)
        names = _new_names(images, names, base.features)
    for package in ("pycolmap", "matplotlib.figure", "jinja2"):
        require(package, extra="sfm" if package == "pycolmap" else "images")
    settings.cameras.check_images(images, names)
    check_pairs([*(() if base is None else base.features), *names], settings.pairs, settings.neighbors, images)
    load_describer(settings.describe, images, names, masks)
    with files.exclusive_writer(out):
        files.claim_folder(out, MADE_BY, CONTENTS, force=force)
        started = time.monotonic()
        with recorded_calls(out / CALLS, started) as calls:
            workers = colmap_sfm.max_parallel_images(images, names, settings.memory, settings.workers)
            if workers < settings.workers:
                report(
                    f"{workers} workers instead of {settings.workers}, so that memory stays below {settings.memory:g} GB"
                )
            report(f"1/3  describing {len(names)} images with {settings.describe.model}")
            features = describe_folder(
                images,
                out / FEATURES,
                settings.describe,
                masks=masks,
                names=names,
                known=None if base is None else base.features,
                workers=workers,
                cluster=cluster,
                strict=settings.strict,
                report=report,
            )
            if len(features) < 2:
                raise UserError(
                    f"{images} holds {len(features)} readable image; a 3D model needs at least two, better three"
                )
            pairs = choose_pairs(features, settings.pairs, settings.neighbors, settings.seed, features.left_out)
            pairs = [pair for pair in pairs if not set(pair).isdisjoint(names)]
            report(f"2/3  matching {len(pairs)} pairs")
            tolerance = TOLERANCE if has_option(settings.matcher, "tolerance") else None
            rule = MatchRule(settings.matcher, settings.ratio, fewest=FEWEST_MATCHES, tolerance=tolerance)
            kept = out / f"{FEATURES}-{settings.matcher}"
            device = settings.describe.device
            found = match_folder(features, pairs, kept, rule, device=device, cluster=cluster, disposable=True)
            report("3/3  COLMAP verifies and maps")
            keypoints = View(features, lambda item: item.keypoints, [name for name in names if name in features])
            model = colmap_sfm.reconstruct(
                images,
                keypoints,
                View(found, lambda matches: matches.indices.numpy()),
                out / MODEL,
                settings.cameras,
                base_folder=None if base is None else base.folder / MODEL,
                seed=settings.seed,
                mapper=settings.mapper,
                memory_gb=settings.memory,
            )
            if settings.refine:
                share = refine_model(model, keypoints, images)
                colmap_sfm.write_model(model, out / MODEL)
                report(f"{share:.0%} of the observations are aligned with others of their points")
        _write_results(images, into, out, settings, features, model, calls)
    return SfmFolder(out, features, model)


def _as_described(base: SfmFolder, settings: SfmSettings) -> SfmSettings:
    """The settings with those that the images of ``base`` were described with; others than these are refused."""
    if settings.refine:
        raise UserError(
            "refining would move the cameras of the earlier model, which keep their places; leave --refine out"
        )
    if settings.mapper != "incremental":
        raise UserError("images are added to a model one after the other; leave --mapper out")
    known = base.settings()
    for name in ("model", "detector", "max_keypoints", "max_size", "upright", "spread"):
        value = getattr(settings.describe, name)
        if value not in (getattr(known, name), getattr(COLMAP_KEYPOINTS, name)):
            flag, used = name.replace("_", "-"), getattr(known, name)
            raise UserError(
                f"the images of {base.folder} were described with {flag} {used}, not {value}; leave --{flag} out"
            )
    base.describer()
    return replace(settings, describe=replace(known, device=settings.describe.device))


def _new_names(images: Path, names: Sequence[str], known: FeatureFolder) -> list[str]:
    """The images that are not known; raises UserError for another image under a known name."""
    old_folder = Path(known.manifest["photos_folder"])
    for name in names:
        if name in known and not any(
            _is_same(images / name, other) for other in (old_folder / name, known[name].image_path)
        ):
            raise UserError(f"the model has another image {name} than {images / name}; rename one of them")
    new = [name for name in names if name not in known]
    if not new:
        raise UserError(f"all images of {images} are in the model {known.folder.parent} already")
    return new


def _is_same(file: Path, other: Path | None) -> bool:
    return other is not None and other.is_file() and (file.samefile(other) or filecmp.cmp(file, other, shallow=False))


def _write_results(
    images: Path,
    into: str | Path | None,
    out: Path,
    settings: SfmSettings,
    features: FeatureFolder,
    model: Any,
    calls: list[provenance.RunRecord],
) -> None:
    """Write the summary, the drawing, the points and the report of a model."""
    from patchprint.pipelines.sfm_page import page
    from patchprint.report.page import write
    from patchprint.report.scenes import draw_model

    scores = {**colmap_sfm.summarize(model, len(features)), "seconds": sum(call["seconds"] for call in calls)}
    made = {name: value for name, value in asdict(settings).items() if name not in ("describe", "cameras")}
    data = {
        "path": str(images),
        "sha256": provenance.sha256_of_folder(images),
        "into": None if into is None else str(into),
        "left_out": features.left_out,
    }
    result = provenance.Result(
        "sfm",
        {**features.manifest["settings"], **made, **asdict(settings.cameras)},
        features.manifest["model"],
        data,
        settings.seed,
        {settings.describe.model: scores},
        calls[-1],
    )
    files.write_json(out / SUMMARY, {**result.to_json(), "calls": calls})
    draw_model(model, out / "model.png")
    colmap_sfm.write_ply(model, out / "points.ply")
    write(page(out, model), out / "report.html")

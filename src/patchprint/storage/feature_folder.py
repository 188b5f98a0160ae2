"""Describe a folder of images, in several processes or on a cluster, and resume where a call was interrupted."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from patchprint.common import files
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.progress import Progress, Stations, note, skip_or_raise
from patchprint.features.extract import DescribeSettings
from patchprint.features.model import Model, NetworkModel, load
from patchprint.interop.images import find_mask, is_url, join_image_path, list_images
from patchprint.interop.ray_cluster import Cluster
from patchprint.networks.engines import AUTO, FASTEST, is_installed
from patchprint.networks.network import multiply_adds
from patchprint.storage import feature_files
from patchprint.storage.describe_jobs import Job, describe_on_cluster, run_jobs
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.shards import FOLDER, Shards, images_per_shard

IN_HAND = f"{files.MARKER}-in-hand"  # file that names the images at work
_SLOW_FROM = 10  # images from which on a slow model is pointed out; ten are half a minute, or minutes in sfm
_SLOW, _FAST = 30e6, "patchprint.fast"  # multiply-adds of a descriptor, and a model that is well below


def describe_folder(
    images: str | Path,
    out: str | Path,
    settings: DescribeSettings | None = None,
    *,
    masks: str | Path | None = None,
    names: Sequence[str] | None = None,
    known: FeatureFolder | None = None,
    workers: int | None = None,
    shards: bool = False,
    cluster: Cluster | None = None,
    strict: bool = False,
    force: bool = False,
    report: Callable[[str], None] = note,
) -> FeatureFolder:
    """Detect and describe the keypoints of all images below a folder or a URL.

    Images that have features in ``out`` are skipped, as long as the settings are the same.

    Args:
        images: folder, searched with its subfolders, or a URL of object storage.
        out: folder for the features.
        masks: folder of masks (NAME.png for the image NAME); keypoints are not detected where a mask is black.
        names: images to describe, relative to ``images``; all by default.
        known: features of other images, made with the same settings, which are copied into ``out``.
        workers: processes; by default 1 on a CPU, and one per core with a GPU, which would wait for a single one. Where the GPU
            also finds the keypoints, threads that read ahead.
        shards: write many images into each file (`patchprint.storage.shards`).
        cluster: Ray cluster to work on; implies ``shards``.
        strict: raise for the first image that cannot be read; by default it is reported and left out.
        force: replace features that were made with other settings.
        report: called with messages for the user.

    Raises:
        UserError: for settings that cannot work, for an ``out`` with other features, and where no image can be read.
    """
    if not is_url(images):
        images = Path(images) if cluster is None else Path(images).absolute()  # workers are started elsewhere
    out, settings = Path(out), settings or DescribeSettings()
    mask_folder = None if masks is None else Path(masks).resolve()
    names = list_images(images) if names is None else list(names)
    here = settings if cluster is None else replace(settings, device="cpu")
    on_cpu = cluster is None and choose_device(here.device).type == "cpu"
    if workers is None:
        workers = 1 if on_cpu else os.cpu_count() or 1
    if workers < 1:
        raise UserError(f"at least 1 worker is needed, got {workers}")
    model = load_describer(here, images, names, mask_folder)
    if on_cpu:
        here = replace(here, engine=model.engine or AUTO)  # prepared before there are workers
    described = [*(known or ()), *names]
    per_shard = images_per_shard(len(described)) if shards or cluster is not None else None
    _claim(out, images, described, settings, mask_folder, model, per_shard, force)
    if known is not None:
        _copy(known, out)
    there = FeatureFolder(out)
    jobs = {
        name: Job(
            join_image_path(images, name), find_mask(mask_folder, name) if mask_folder else None, out / f"{name}.npz"
        )
        for name in names
        if name not in there
    }
    unmasked = [name for name, job in jobs.items() if mask_folder and job.mask is None]
    if unmasked:
        report(f"{len(unmasked)} images have no mask and are searched as a whole, the first is {unmasked[0]}")
    if on_cpu and len(jobs) >= _SLOW_FROM and isinstance(model, NetworkModel) and multiply_adds(model.network) > _SLOW:
        hint = (
            f"{model.info.name} is slow without a GPU; --model {_FAST} is several times as fast and nearly as accurate"
        )
        if not is_installed(FASTEST):
            hint += ", and pip install 'patchprint[fast]' halves the time of both"
        report(hint)
    stations = Stations()
    if cluster is None or there.shards is None:
        outcomes = _run_here(jobs, there.shards, here, workers, out / IN_HAND, stations)
    else:
        seen = [place for place in (images, mask_folder) if isinstance(place, Path)]
        outcomes = describe_on_cluster(jobs, there.shards, replace(here, device=settings.device), cluster, *seen)
    with Progress("describing", len(jobs), "image", stations) as counter:
        for problems in outcomes:
            wrong = [problem for problem in problems if problem is not None]
            counter.update(len(problems), len(wrong))
            for problem in wrong:
                skip_or_raise(problem, strict, report)
    if there.shards is not None:
        for number in range(len(there.shards)):
            there.shards.pack(number)
    features = FeatureFolder(out)
    if not len(features):
        raise UserError(f"none of the {len(names)} images in {images} could be read")
    return features


def load_describer(
    settings: DescribeSettings, images: str | Path, names: Sequence[str], masks: str | Path | None = None
) -> Model:
    """Load the model of the settings; raises UserError for masks that fit none of the images."""
    if masks is not None and not Path(masks).is_dir():
        raise UserError(f"{masks} is not a folder of masks")
    if masks is not None and not any(find_mask(masks, name) for name in names):
        raise UserError(f"{masks} holds no mask of an image in {images}; expected for example {names[0]}.png")
    return load(settings.model, settings.device, engine=settings.engine)


def _claim(
    out: Path,
    images: str | Path,
    names: list[str],
    settings: DescribeSettings,
    masks: Path | None,
    model: Model,
    per_shard: int | None,
    force: bool,
) -> None:
    """Make ``out`` the folder of these features, with a manifest; one of the same features is kept."""
    kept = {name: value for name, value in asdict(settings).items() if name not in ("device", "engine")}
    plan = {
        "photos_folder": str(images if is_url(images) else Path(images).resolve()),
        "photos": names,
        "settings": {**kept, "masks": str(masks or "")},
        "model": asdict(model.id),
        "ratio": model.ratio,
    }
    if per_shard is not None:
        plan[feature_files.PER_SHARD] = per_shard
    own = [feature_files.MANIFEST, feature_files.VECTORS, f"{FOLDER}/*.zip", f"{IN_HAND}*"]
    contents = [*own, *(f"{name}.npz" for name in names)]
    inputs = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    files.claim_folder(out, feature_files.MADE_BY, contents, inputs, force)
    files.write_json(out / feature_files.MANIFEST, plan)


def _copy(known: FeatureFolder, out: Path) -> None:
    there = FeatureFolder(out)
    for name in known:
        if name not in there:
            with files.atomic_file(out / f"{name}.npz") as temporary:
                temporary.write_bytes(known.contents(name))


def _run_here(
    jobs: Mapping[str, Job],
    shards: Shards | None,
    settings: DescribeSettings,
    workers: int,
    in_hand: Path,
    stations: Stations,
) -> Iterator[list[Exception | None]]:
    """Run jobs on this machine; a shard is packed after its last image, so that few single files exist at any time."""
    numbers = {} if shards is None else {job: shards.number(name) for name, job in jobs.items()}
    left = Counter(numbers.values())
    for job, problem in run_jobs(list(jobs.values()), settings, workers, in_hand, stations):
        if shards is not None:
            left[numbers[job]] -= 1
            if not left[numbers[job]]:
                shards.pack(numbers[job])
        yield [problem]

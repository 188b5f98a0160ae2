"""Describe a folder of photos: with several processes, on several machines, and again where it was interrupted."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch

from patchprint import files
from patchprint.detectors import MAX_KEYPOINTS, check_detector
from patchprint.engines import AUTO
from patchprint.errors import MissingPackageError, UserError
from patchprint.features import storage
from patchprint.features.extract import check_max_size, extract
from patchprint.features.model import DEFAULT_MODEL, Model, load
from patchprint.features.shards import FOLDER, Shards, photos_per_shard
from patchprint.features.storage import FeatureFolder
from patchprint.interop import ray_cluster
from patchprint.interop.images import find_mask, image_in, list_images, read_gray
from patchprint.interop.object_storage import is_url
from patchprint.interop.ray_cluster import Cluster
from patchprint.progress import Progress, leave_out, note
from patchprint.types import Features

MANY_PHOTOS = 50  # from which on an engine is prepared that takes some seconds to start


@dataclass(frozen=True)
class DescribeSettings:
    """How photos are described; equal settings give equal features."""

    model: str = DEFAULT_MODEL
    detector: str = "dog"
    max_keypoints: int | None = MAX_KEYPOINTS
    upright: bool = False
    spread: bool = True
    exif: bool = False
    max_size: int | None = None
    device: str = "cpu"
    engine: str = AUTO
    # Folder of masks, one for each photo that has one (`interop.images.find_mask`); black is where no keypoint may be.
    masks: str = ""


def describe_folder(
    images: str | Path,
    out: str | Path,
    settings: DescribeSettings | None = None,
    workers: int = 1,
    names: list[str] | None = None,
    report: Callable[[str], None] = note,
    force: bool = False,
    strict: bool = False,
    known: FeatureFolder | None = None,
    shards: bool = False,
    cluster: Cluster | None = None,
) -> FeatureFolder:
    """Features of all photos below a folder or a URL, in ``out``.

    Photos that are described already are not described again, as long as the settings are the same; other settings are
    refused, or replace what is there with ``force``. Under torchrun every process takes its share of the photos. Photos
    that cannot be read are named through ``report`` and left out; with ``strict`` the first of them is an error.

    Args:
        names: photos to describe, relative to ``images``; all by default.
        known: features of other photos, made with the same settings, which are copied into ``out``.
        shards: many photos in each file (`features.shards`) instead of one.
        cluster: work there, in shards; this process alone writes them. The features are those of one machine.
    """
    images = images if is_url(images) else Path(images).absolute()
    out, settings = Path(out), settings or DescribeSettings()
    names = list_images(images) if names is None else names
    if workers < 1:
        raise UserError(f"at least 1 worker is needed, got {workers}")
    here = settings if cluster is None else replace(settings, device="cpu")
    model = check_settings(here, images, names)
    if settings.engine == AUTO and len(names) >= MANY_PHOTOS:
        here = replace(here, engine=model.engine_for_many())
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    photos = [*(known or ()), *names]
    per_shard = photos_per_shard(len(photos)) if shards or cluster is not None else None
    if rank == 0:
        _claim(out, images, photos, settings, model, per_shard, force)
        if known is not None:
            _copy(known, out)
    wait_for_all_ranks()
    there = FeatureFolder(out)
    todo = [name for name in names[rank::world] if name not in there]
    jobs = [Job(image_in(images, name), _mask_of(name, settings), out / f"{name}.npz") for name in todo]
    unmasked = [name for name, job in zip(todo, jobs, strict=True) if settings.masks and job.mask is None]
    if unmasked:
        report(f"{len(unmasked)} photos have no mask and are searched as a whole, the first is {unmasked[0]}")
    by_name = dict(zip(todo, jobs, strict=True))
    if cluster is not None and there.shards is not None:
        outcomes = _run_on_cluster(by_name, there.shards, replace(here, device=settings.device), cluster, report)
    else:
        outcomes = _run_here(by_name, there.shards if world == 1 else None, here, workers)
    with Progress("describing", len(todo), "photo") as counter:
        for problems in outcomes:
            wrong = [problem for problem in problems if problem is not None]
            counter.update(len(problems), len(wrong))
            for problem in wrong:
                leave_out(problem, strict, report)
    wait_for_all_ranks()
    if there.shards is not None and rank == 0:
        for number in range(len(there.shards)):
            there.shards.pack(number)
    features = FeatureFolder(out)
    if not len(features):
        raise UserError(f"none of the {len(names)} photos in {images} could be read")
    return features


def check_settings(settings: DescribeSettings, images: str | Path, names: list[str]) -> Model:
    """The model of the settings, or UserError where they can describe none of the photos; before any work is done."""
    check_detector(settings.detector, settings.max_keypoints)
    check_max_size(settings.max_size)
    if settings.masks and not Path(settings.masks).is_dir():
        raise UserError(f"{settings.masks} is not a folder of masks")
    if settings.masks and not any(_mask_of(name, settings) for name in names):
        raise UserError(
            f"{settings.masks} holds no mask of a photo in {images}; the mask of {names[0]} is called {names[0]}.png"
        )
    return load(settings.model, settings.device, settings.engine).for_keypoints()


@dataclass(frozen=True)
class Job:
    """One photo to describe."""

    image: str | Path
    mask: Path | None
    out: Path


def _mask_of(name: str, settings: DescribeSettings) -> Path | None:
    return find_mask(settings.masks, name) if settings.masks else None


def _claim(
    out: Path,
    images: str | Path,
    photos: list[str],
    settings: DescribeSettings,
    model: Model,
    per_shard: int | None,
    force: bool,
) -> None:
    """Make ``out`` a folder of these features with a manifest, or go on with one that is."""
    plan = {
        "photos_folder": str(images if is_url(images) else Path(images).resolve()),
        "photos": photos,
        "settings": {k: v for k, v in asdict(settings).items() if k not in ("device", "engine")},
        "model": asdict(model.id),
        "ratio": model.ratio,
    }
    if per_shard is not None:
        plan[storage.PER_SHARD] = per_shard
    contents = [storage.MANIFEST, storage.VECTORS, f"{FOLDER}/*.zip", *(f"{name}.npz" for name in photos)]
    inputs = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    files.claim_folder(out, storage.MADE_BY, contents, inputs, force)
    files.write_json(out / storage.MANIFEST, plan)


def _copy(known: FeatureFolder, out: Path) -> None:
    there = FeatureFolder(out)
    for name in known:
        if name not in there:
            with files.atomic_file(out / f"{name}.npz") as temporary:
                temporary.write_bytes(known.contents(name))


def _run_here(
    jobs: Mapping[str, Job], shards: Shards | None, settings: DescribeSettings, workers: int
) -> Iterator[list[Exception | None]]:
    """Photo by photo; a shard is packed when its last photo is done, so that few files are open to view at any time."""
    packed = 0
    for name, problem in zip(jobs, _run(list(jobs.values()), settings, workers), strict=True):
        while shards is not None and packed < shards.number(name):
            shards.pack(packed)
            packed += 1
        yield [problem]


def _run_on_cluster(
    jobs: Mapping[str, Job], shards: Shards, settings: DescribeSettings, cluster: Cluster, report: Callable[[str], None]
) -> Iterator[list[Exception | None]]:
    """Shard by shard, each on one worker."""
    if not jobs:
        return
    blocks: dict[int, list[str]] = {}
    for name in jobs:
        blocks.setdefault(shards.number(name), []).append(name)
    numbers, work = list(blocks), [[jobs[name] for name in names] for names in blocks.values()]
    with ray_cluster.connected(cluster) as ray:
        on_gpu = {"auto": None, "cpu": False}.get(settings.device, True)
        room = ray_cluster.room_for_workers(ray, on_gpu)
        paths = [Path(job.image).parent for job in jobs.values() if not is_url(job.image)][:1]
        ray_cluster.refuse_unseen(ray, *paths, *([Path(settings.masks)] if settings.masks else []))
        settings = replace(settings, device="cuda", engine=AUTO) if room.gpus else replace(settings, device="cpu")
        for index, found in ray_cluster.spread(ray, work, partial(_block_describer, settings), room, report):
            number = numbers[index]
            described = dict(zip(blocks[number], found, strict=True))
            shards.add(number, {name: made for name, made in described.items() if isinstance(made, bytes)})
            yield [None if isinstance(made, bytes) else made for made in found]


def _block_describer(settings: DescribeSettings) -> Callable[[list[Job]], list[bytes | Exception]]:
    """What a worker of a cluster does, with the model that it loads once."""
    model = load(settings.model, settings.device, settings.engine).for_keypoints()

    def describe_block(jobs: list[Job]) -> list[bytes | Exception]:
        found = (_described(job, settings, model) for job in jobs)
        return [storage.to_bytes(each) if isinstance(each, Features) else each for each in found]

    return describe_block


def _run(jobs: list[Job], settings: DescribeSettings, workers: int) -> Iterator[Exception | None]:
    if workers <= 1 or len(jobs) <= 1:
        _prepare(settings)
        yield from map(_describe_one, jobs)
        return
    # "spawn": a forked child of a process that has used torch's threads or a GPU may hang.
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(min(workers, len(jobs)), context, _prepare_worker, (settings, workers)) as pool:
            yield from pool.map(_describe_one, jobs)
    except BrokenProcessPool as error:
        raise OSError(
            "a worker process was killed, most likely for lack of memory; give fewer --workers and run again, which goes on "
            "where this stopped"
        ) from error


_state: dict[str, tuple[DescribeSettings, Model]] = {}


def _prepare(settings: DescribeSettings) -> None:
    _state["current"] = settings, load(settings.model, settings.device, settings.engine)


def _prepare_worker(settings: DescribeSettings, workers: int) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    _prepare(settings)


def _describe_one(job: Job) -> Exception | None:
    """Describe one photo; returns what is wrong with it, if anything."""
    settings, model = _state["current"]
    features = _described(job, settings, model)
    if isinstance(features, Exception):
        return features
    storage.save(features, job.out)
    return None


def _described(job: Job, settings: DescribeSettings, model: Model) -> Features | Exception:
    """The features of a photo, or what is wrong with it."""
    try:
        return extract(
            job.image,
            model,
            mask=None if job.mask is None else read_gray(job.mask, settings.exif),
            max_keypoints=settings.max_keypoints,
            upright=settings.upright,
            detector=settings.detector,
            spread=settings.spread,
            exif=settings.exif,
            max_size=settings.max_size,
        )
    except (ValueError, OSError) as error:
        is_named = Path(job.image).name in str(error) or isinstance(error, MissingPackageError)
        return error if is_named else UserError(f"{job.image}: {error}")


def wait_for_all_ranks() -> None:
    """Under torchrun: return when every process has come here."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        return
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()

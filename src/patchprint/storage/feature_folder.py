"""Describe a folder of photos: with several processes, on several machines, and again where it was interrupted."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from patchprint.common import files
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.progress import Progress, leave_out, note
from patchprint.detectors import check_detector
from patchprint.features.extract import Found
from patchprint.features.model import Model, load
from patchprint.features.settings import DetectSettings
from patchprint.interop.image_files import find_mask, image_in, list_images
from patchprint.interop.object_storage import is_url
from patchprint.interop.ray_cluster import Cluster
from patchprint.networks.engines import AUTO
from patchprint.storage import feature_files
from patchprint.storage.cluster import describe_on_cluster
from patchprint.storage.describe_jobs import DescribeSettings, Job, described, find, limit_threads, save
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.shards import FOLDER, Shards, photos_per_shard
from patchprint.types import Keypoints

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
MANY_PHOTOS = 50  # from which on an engine is prepared that takes some seconds to start
_WRITERS = 4  # threads, which mostly wait for the disk


def describe_folder(
    images: str | Path,
    out: str | Path,
    settings: DescribeSettings | None = None,
    workers: int | None = None,
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
        workers: processes that work side by side; by default 1, and before a GPU, which would wait for a single one, as many
            as there are cores.
        names: photos to describe, relative to ``images``; all by default.
        known: features of other photos, made with the same settings, which are copied into ``out``.
        shards: many photos in each file (`features.shards`) instead of one.
        cluster: work there, in shards; this process alone writes them. The features are those of one machine.
    """
    if not is_url(images):
        images = Path(images) if cluster is None else Path(images).absolute()  # workers are started elsewhere
    out, settings = Path(out), settings or DescribeSettings()
    names = list_images(images) if names is None else names
    if workers is None:
        workers = 1 if choose_device(settings.device).type == "cpu" else os.cpu_count() or 1
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
        outcomes = describe_on_cluster(by_name, there.shards, replace(here, device=settings.device), cluster, report)
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
    DetectSettings(max_size=settings.max_size)
    if settings.masks and not Path(settings.masks).is_dir():
        raise UserError(f"{settings.masks} is not a folder of masks")
    if settings.masks and not any(_mask_of(name, settings) for name in names):
        raise UserError(
            f"{settings.masks} holds no mask of a photo in {images}; the mask of {names[0]} is called {names[0]}.png"
        )
    return load(settings.model, settings.device, engine=settings.engine)


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
        plan[feature_files.PER_SHARD] = per_shard
    contents = [feature_files.MANIFEST, feature_files.VECTORS, f"{FOLDER}/*.zip", *(f"{name}.npz" for name in photos)]
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
    jobs: Mapping[str, Job], shards: Shards | None, settings: DescribeSettings, workers: int
) -> Iterator[list[Exception | None]]:
    """Photo by photo; a shard is packed when its last photo is done, so that few files are open to view at any time."""
    packed = 0
    for name, problem in zip(jobs, _run(list(jobs.values()), settings, workers), strict=True):
        while shards is not None and packed < shards.number(name):
            shards.pack(packed)
            packed += 1
        yield [problem]


def _run(jobs: list[Job], settings: DescribeSettings, workers: int) -> Iterator[Exception | None]:
    workers = min(workers, len(jobs))
    if workers <= 1:
        model = load(settings.model, settings.device, engine=settings.engine)
        yield from (_describe_one(job, settings, model) for job in jobs)
        return
    run = _run_on_cores if choose_device(settings.device).type == "cpu" else _run_before_a_gpu
    try:
        yield from run(jobs, settings, workers)
    except BrokenProcessPool as error:
        raise OSError(
            "a worker process was killed, most likely for lack of memory; give fewer --workers and run again, which goes on "
            "where this stopped"
        ) from error


def _pool(workers: int, settings: DescribeSettings, needs_model: bool) -> ProcessPoolExecutor:
    # "spawn": a forked child of a process that has used torch's threads or a GPU may hang.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, _prepare_worker, (settings, workers, needs_model))


def _run_on_cores(jobs: list[Job], settings: DescribeSettings, workers: int) -> Iterator[Exception | None]:
    """Each process does all that a photo needs."""
    with _pool(workers, settings, needs_model=True) as pool:
        yield from pool.map(_describe_in_worker, jobs)


def _run_before_a_gpu(jobs: list[Job], settings: DescribeSettings, workers: int) -> Iterator[Exception | None]:
    """Processes read photos and find keypoints, this one describes them, threads write: the GPU waits for nobody."""
    model = load(settings.model, settings.device, engine=settings.engine)
    ahead = 2 * workers  # photos that wait for the next station at each of them
    with _pool(workers, settings, needs_model=False) as pool, ThreadPoolExecutor(_WRITERS) as writers:
        found = (_received(each) for each in _in_order(pool, _find_in_worker, jobs, ahead))
        made = ((job, described(job, each, model)) for job, each in zip(jobs, found, strict=True))
        yield from _in_order(writers, save, made, ahead)


def _in_order(
    pool: Executor, function: Callable[[Item], Outcome], items: Iterable[Item], ahead: int
) -> Iterator[Outcome]:
    """What ``pool.map`` gives, with at most ``ahead`` items taken that are not given back yet."""
    waiting: deque[Future[Outcome]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) == ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


_state: dict[str, tuple[DescribeSettings, Model | None]] = {}


def _prepare_worker(settings: DescribeSettings, workers: int, needs_model: bool) -> None:
    limit_threads(max(1, (os.cpu_count() or 1) // workers))
    _state["current"] = settings, load(settings.model, settings.device, engine=settings.engine) if needs_model else None


def _describe_in_worker(job: Job) -> Exception | None:
    settings, model = _state["current"]
    assert model is not None
    return _describe_one(job, settings, model)


def _find_in_worker(job: Job) -> dict[str, Any] | Exception:
    """What `find` says, as arrays: each tensor would be handed over with a handshake, for which the GPU waits."""
    found = find(job, _state["current"][0])
    return found if isinstance(found, Exception) else {**vars(found), "keypoints": found.keypoints.to_arrays()}


def _received(sent: dict[str, Any] | Exception) -> Found | Exception:
    return (
        sent
        if isinstance(sent, Exception)
        else Found(**{**sent, "keypoints": Keypoints.from_arrays(sent["keypoints"])})
    )


def _describe_one(job: Job, settings: DescribeSettings, model: Model) -> Exception | None:
    """Describe one photo; returns what is wrong with it, if anything."""
    return save((job, described(job, find(job, settings), model)))


def wait_for_all_ranks() -> None:
    """Under torchrun: return when every process has come here."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        return
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()

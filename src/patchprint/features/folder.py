"""Describe a folder of photos: with several processes, over several machines, and again where it was interrupted."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from patchprint import files
from patchprint.detectors import MAX_KEYPOINTS, check_detector
from patchprint.devices import choose_device
from patchprint.engines import AUTO
from patchprint.errors import MissingPackageError, UserError
from patchprint.extras import require
from patchprint.features import storage
from patchprint.features.extract import Found, check_max_size, describe_found, find_keypoints
from patchprint.features.model import DEFAULT_MODEL, Model, load
from patchprint.features.storage import FeatureFolder
from patchprint.interop.images import find_mask, list_images, read_gray
from patchprint.progress import leave_out, note, progress
from patchprint.types import Features, Keypoints

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
MANY_PHOTOS = 50  # from which on an engine is prepared that takes some seconds to start
_WRITERS = 4  # threads, which mostly wait for the disk


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
    workers: int | None = None,
    names: list[str] | None = None,
    report: Callable[[str], None] = note,
    force: bool = False,
    strict: bool = False,
    known: FeatureFolder | None = None,
) -> FeatureFolder:
    """Features of all photos below a folder, one file each in ``out``.

    Photos that are described already are not described again, as long as the settings are the same; other settings are
    refused, or replace what is there with ``force``. Under torchrun every process takes its share of the photos. Photos
    that cannot be read are named through ``report`` and left out; with ``strict`` the first of them is an error.

    Args:
        workers: processes that work side by side; by default 1, and before a GPU, which would wait for a single one, as many
            as there are cores.
        names: photos to describe, relative to ``images``; all by default.
        known: features of other photos, made with the same settings, which are copied into ``out``.
    """
    images, out, settings = Path(images), Path(out), settings or DescribeSettings()
    names = list_images(images) if names is None else names
    if workers is None:
        workers = 1 if choose_device(settings.device).type == "cpu" else os.cpu_count() or 1
    if workers < 1:
        raise UserError(f"at least 1 worker is needed, got {workers}")
    model = check_settings(settings, images, names)
    if settings.engine == AUTO and len(names) >= MANY_PHOTOS:
        settings = replace(settings, engine=model.engine_for_many())
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if rank == 0:
        _claim(out, images, [*(known or ()), *names], settings, model, force)
        if known is not None:
            _copy(known, out)
    wait_for_all_ranks()
    todo = [name for name in names[rank::world] if not (out / f"{name}.npz").is_file()]
    jobs = [Job(images / name, _mask_of(name, settings), out / f"{name}.npz") for name in todo]
    unmasked = [job.image.name for job in jobs if settings.masks and job.mask is None]
    if unmasked:
        report(f"{len(unmasked)} photos have no mask and are searched as a whole, the first is {unmasked[0]}")
    for problem in progress(_run(jobs, settings, workers), "describing", "photo", len(jobs)):
        if problem is not None:
            leave_out(problem, strict, report)
    wait_for_all_ranks()
    features = FeatureFolder(out)
    if not len(features):
        raise UserError(f"none of the {len(names)} photos in {images} could be read")
    return features


def check_settings(settings: DescribeSettings, images: Path, names: list[str]) -> Model:
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

    image: Path
    mask: Path | None
    out: Path


def _mask_of(name: str, settings: DescribeSettings) -> Path | None:
    return find_mask(settings.masks, name) if settings.masks else None


def _claim(out: Path, images: Path, names: list[str], settings: DescribeSettings, model: Model, force: bool) -> None:
    """Make ``out`` a folder of these features with a manifest, or go on with one that is."""
    plan = {
        "photos_folder": str(images.resolve()),
        "photos": names,
        "settings": {k: v for k, v in asdict(settings).items() if k not in ("device", "engine")},
        "model": asdict(model.id),
        "ratio": model.ratio,
    }
    contents = [storage.MANIFEST, *(f"{name}.npz" for name in names)]
    inputs = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    files.claim_folder(out, storage.MADE_BY, contents, inputs, force)
    files.write_json(out / storage.MANIFEST, plan)


def _copy(known: FeatureFolder, out: Path) -> None:
    for name in known:
        target = out / f"{name}.npz"
        if not target.is_file():
            with files.atomic_file(target) as temporary:
                shutil.copyfile(known.path(name), temporary)


def _run(jobs: list[Job], settings: DescribeSettings, workers: int) -> Iterator[Exception | None]:
    workers = min(workers, len(jobs))
    if workers <= 1:
        model = load(settings.model, settings.device, settings.engine)
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
    model = load(settings.model, settings.device, settings.engine)
    ahead = 2 * workers  # photos that wait for the next station at each of them
    with _pool(workers, settings, needs_model=False) as pool, ThreadPoolExecutor(_WRITERS) as writers:
        found = (_received(each) for each in _in_order(pool, _find_in_worker, jobs, ahead))
        described = ((job, _described(job, each, model)) for job, each in zip(jobs, found, strict=True))
        yield from _in_order(writers, _save, described, ahead)


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
    threads = max(1, (os.cpu_count() or 1) // workers)
    torch.set_num_threads(threads)
    require("cv2", extra="images").setNumThreads(
        threads
    )  # by itself it would start as many as there are cores in each process
    _state["current"] = settings, load(settings.model, settings.device, settings.engine) if needs_model else None


def _describe_in_worker(job: Job) -> Exception | None:
    settings, model = _state["current"]
    assert model is not None
    return _describe_one(job, settings, model)


def _find_in_worker(job: Job) -> dict[str, Any] | Exception:
    """What `_find` says, as arrays: each tensor would be handed over with a handshake, for which the GPU waits."""
    found = _find(job, _state["current"][0])
    return found if isinstance(found, Exception) else {**vars(found), "keypoints": found.keypoints.to_arrays()}


def _received(sent: dict[str, Any] | Exception) -> Found | Exception:
    return (
        sent
        if isinstance(sent, Exception)
        else Found(**{**sent, "keypoints": Keypoints.from_arrays(sent["keypoints"])})
    )


def _describe_one(job: Job, settings: DescribeSettings, model: Model) -> Exception | None:
    """Describe one photo; returns what is wrong with it, if anything."""
    return _save((job, _described(job, _find(job, settings), model)))


def _find(job: Job, settings: DescribeSettings) -> Found | Exception:
    """The keypoints of a photo, or what is wrong with it."""
    try:
        return find_keypoints(
            job.image,
            mask=None if job.mask is None else read_gray(job.mask, settings.exif),
            max_keypoints=settings.max_keypoints,
            upright=settings.upright,
            detector=settings.detector,
            spread=settings.spread,
            exif=settings.exif,
            max_size=settings.max_size,
        )
    except (ValueError, OSError) as error:
        return _named(error, job)


def _described(job: Job, found: Found | Exception, model: Model) -> Features | Exception:
    if isinstance(found, Exception):
        return found
    try:
        return describe_found(found, model)
    except (ValueError, OSError) as error:
        return _named(error, job)


def _named(error: Exception, job: Job) -> Exception:
    is_named = job.image.name in str(error) or isinstance(error, MissingPackageError)
    return error if is_named else UserError(f"{job.image}: {error}")


def _save(made: tuple[Job, Features | Exception]) -> Exception | None:
    job, features = made
    if isinstance(features, Exception):
        return features
    storage.save(features, job.out)
    return None


def wait_for_all_ranks() -> None:
    """Under torchrun: return when every process has come here."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        return
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()

"""Describe single images in this process or in worker processes; errors are returned as values."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from patchprint.common.devices import choose_device
from patchprint.common.errors import MissingPackageError, UserError, require
from patchprint.common.progress import note
from patchprint.common.types import Features, Keypoints
from patchprint.features.extract import DescribeSettings, Found, describe_found, find_keypoints
from patchprint.features.model import Model, load
from patchprint.interop.images import read_gray
from patchprint.storage import feature_files

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
_WRITERS = 4  # threads, which mostly wait for the disk


@dataclass(frozen=True)
class Job:
    """One image to describe, its mask, and the feature file to write."""

    image: str | Path
    mask: Path | None
    out: Path


def detect(job: Job, settings: DescribeSettings) -> Found | Exception:
    """The keypoints of an image, or the error that its file raised."""
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
    except (ValueError, OSError, _opencv_error()) as error:
        return _name_image(error, job)


def describe(job: Job, found: Found | Exception, model: Model) -> Features | Exception:
    """The features of detected keypoints; an error is passed on."""
    if isinstance(found, Exception):
        return found
    try:
        return describe_found(found, model)
    except (ValueError, OSError, _opencv_error()) as error:
        return _name_image(error, job)


def save(job: Job, features: Features | Exception) -> Exception | None:
    """Write the feature file; returns the error, if there is one."""
    if isinstance(features, Exception):
        return features
    feature_files.save(features, job.out)
    return None


def run_jobs(jobs: list[Job], settings: DescribeSettings, workers: int, in_hand: Path) -> Iterator[Exception | None]:
    """Describe images on this machine; yields the error of each, or None, in order.

    Args:
        in_hand: file that names the current image where this process works alone. An image that an interrupted call left there
            may have killed it, and is described in a child process.
    """
    workers = min(workers, len(jobs))
    if workers > 1:
        run = _run_on_cores if choose_device(settings.device).type == "cpu" else _run_with_gpu
        yield from run(jobs, settings, workers)
        return
    suspect = in_hand.read_text(encoding="utf-8") if in_hand.is_file() else None
    model = load(settings.model, settings.device, engine=settings.engine)
    try:
        for job in jobs:
            if str(job.image) == suspect:
                yield from _run_one_by_one([job], settings, _run_in_worker)
                continue
            in_hand.write_text(str(job.image), encoding="utf-8")
            yield _run_job(job, settings, model)
    finally:
        in_hand.unlink(missing_ok=True)


def crash_error(job: Job) -> UserError:
    """The error of an image that killed a process that worked on it alone."""
    return UserError(
        f"{job.image}: the process that worked on it alone was killed: it is damaged, or there is too little memory"
    )


def limit_threads(number: int) -> None:
    """Limit torch and OpenCV threads in this worker, so that workers do not oversubscribe the CPU."""
    torch.set_num_threads(number)
    require("cv2", extra="images").setNumThreads(number)


def _run_job(job: Job, settings: DescribeSettings, model: Model) -> Exception | None:
    return save(job, describe(job, detect(job, settings), model))


def _name_image(error: Exception, job: Job) -> Exception:
    is_named = Path(job.image).name in str(error) or isinstance(error, MissingPackageError)
    return error if is_named else UserError(f"{job.image}: {error}")


def _opencv_error() -> type[Exception]:
    error: type[Exception] = require("cv2", extra="images").error
    return error


def _pool(workers: int, settings: DescribeSettings, function: Callable[[Job], Any]) -> ProcessPoolExecutor:
    # "spawn": a forked child of a process that has used torch's threads or a GPU may hang.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, _prepare_worker, (settings, workers, function is _run_in_worker))


def _run_on_cores(jobs: list[Job], settings: DescribeSettings, workers: int) -> Iterator[Exception | None]:
    """Each worker process detects, describes and writes."""
    yield from _run_in_processes(jobs, settings, workers, _run_in_worker)


def _run_with_gpu(jobs: list[Job], settings: DescribeSettings, workers: int) -> Iterator[Exception | None]:
    """Worker processes detect, this process describes, threads write: the GPU never waits."""
    model = load(settings.model, settings.device, engine=settings.engine)
    with ThreadPoolExecutor(_WRITERS) as writers:
        found = map(_from_arrays, _run_in_processes(jobs, settings, workers, _detect_in_worker))
        made = ((job, describe(job, each, model)) for job, each in zip(jobs, found, strict=True))
        yield from _map_ahead(writers, lambda each: save(*each), made, 2 * workers)


def _run_in_processes(
    jobs: list[Job], settings: DescribeSettings, workers: int, function: Callable[[Job], Outcome | Exception]
) -> Iterator[Outcome | Exception]:
    """Run a function on each image in worker processes; when one is killed, the current images are tried one by one."""
    done, ahead = 0, 2 * workers
    while done < len(jobs):
        try:
            with _pool(workers, settings, function) as pool:
                for outcome in _map_ahead(pool, function, jobs[done:], ahead):
                    done += 1
                    yield outcome
        except BrokenProcessPool:
            current = jobs[done : done + ahead]
            note(f"a worker process was killed; the {len(current)} images in work are tried one by one")
            for outcome in _run_one_by_one(current, settings, function):
                done += 1
                yield outcome


def _run_one_by_one(
    jobs: list[Job], settings: DescribeSettings, function: Callable[[Job], Outcome | Exception]
) -> Iterator[Outcome | Exception]:
    """Run a function on each image in one child process; an image that kills it has `crash_error` as its error."""
    with contextlib.ExitStack() as stack:
        pool: ProcessPoolExecutor | None = None
        for job in jobs:
            if pool is None:
                pool = stack.enter_context(_pool(1, settings, function))
                try:
                    pool.submit(int).result()
                except BrokenProcessPool as error:  # before it has seen an image
                    raise OSError(
                        "a worker process was killed, most likely for lack of memory; give fewer --workers and run again, "
                        "which goes on where this stopped"
                    ) from error
            try:
                yield pool.submit(function, job).result()
            except BrokenProcessPool:
                pool = None
                yield crash_error(job)


def _map_ahead(
    pool: Executor, function: Callable[[Item], Outcome], items: Iterable[Item], ahead: int
) -> Iterator[Outcome]:
    """Like ``pool.map``, but never more than ``ahead`` items beyond the last yielded result."""
    waiting: deque[Future[Outcome]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) == ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


_worker: dict[str, Any] = {}  # settings and model of a worker process


def _prepare_worker(settings: DescribeSettings, workers: int, needs_model: bool) -> None:
    limit_threads(max(1, (os.cpu_count() or 1) // workers))
    model = load(settings.model, settings.device, engine=settings.engine) if needs_model else None
    _worker.update(settings=settings, model=model)


def _run_in_worker(job: Job) -> Exception | None:
    return _run_job(job, **_worker)


def _detect_in_worker(job: Job) -> dict[str, Any] | Exception:
    """`detect`, with arrays in place of tensors: each tensor would cost a handshake for which the GPU waits."""
    found = detect(job, _worker["settings"])
    return found if isinstance(found, Exception) else {**vars(found), "keypoints": found.keypoints.to_arrays()}


def _from_arrays(sent: dict[str, Any] | Exception) -> Found | Exception:
    if isinstance(sent, Exception):
        return sent
    return Found(**{**sent, "keypoints": Keypoints.from_arrays(sent["keypoints"])})

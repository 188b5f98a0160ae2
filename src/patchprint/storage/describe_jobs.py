"""Describe images in this process, in worker processes or on a cluster; errors of single images are returned as values."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from patchprint.common.devices import choose_device
from patchprint.common.errors import MissingPackageError, UserError, require
from patchprint.common.progress import note
from patchprint.common.types import Features, Keypoints
from patchprint.features.extract import DescribeSettings, Found, describe_found, find_keypoints
from patchprint.features.model import Model, load
from patchprint.interop import ray_cluster
from patchprint.interop.ray_cluster import Cluster
from patchprint.networks.engines import AUTO
from patchprint.storage import feature_files
from patchprint.storage.shards import Shards

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
    """Detect the keypoints of an image; an error that its file raises is returned."""
    return _attempt(job, lambda: find_keypoints(job.image, settings, mask=job.mask))


def describe(job: Job, found: Found | Exception, model: Model) -> Features | Exception:
    """Describe detected keypoints; an error is passed on."""
    return found if isinstance(found, Exception) else _attempt(job, lambda: describe_found(found, model))


def save(job: Job, features: Features | Exception) -> Exception | None:
    """Write the feature file; returns the error, if there is one."""
    if isinstance(features, Exception):
        return features
    feature_files.save_features(features, job.out)
    return None


def run_jobs(jobs: list[Job], settings: DescribeSettings, workers: int, in_hand: Path) -> Iterator[Exception | None]:
    """Describe images on this machine; yields the error of each, or None, in order.

    Args:
        in_hand: file that names the current image where this process works alone. An image that an interrupted call left there
            may have killed it, and is described in a child process.
    """
    workers = min(workers, len(jobs))
    if workers > 1:
        on_cpu = choose_device(settings.device).type == "cpu"
        yield from (
            _run_in_processes(jobs, settings, workers, _run_in_worker)
            if on_cpu
            else _run_with_gpu(jobs, settings, workers)
        )
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


def describe_on_cluster(
    jobs: Mapping[str, Job], shards: Shards, settings: DescribeSettings, cluster: Cluster, *seen: Path
) -> Iterator[list[Exception | None]]:
    """Describe images on a cluster, each shard on one worker; yields the errors of a shard's images.

    Args:
        seen: files and folders that all nodes must see.
    """
    if not jobs:
        return
    blocks: dict[int, list[str]] = {}
    for name in jobs:
        blocks.setdefault(shards.number(name), []).append(name)
    numbers, work = list(blocks), [[jobs[name] for name in names] for names in blocks.values()]
    with ray_cluster.connect(cluster) as ray:
        resources = ray_cluster.worker_resources(ray, settings.device)
        ray_cluster.check_paths_on_nodes(ray, *seen)
        settings = replace(settings, device="cuda", engine=AUTO) if resources.gpus else replace(settings, device="cpu")
        prepare = partial(_block_describer, settings, int(resources.cores))
        lost: list[int] = []
        for index, made in ray_cluster.run_jobs(ray, work, prepare, resources, lost.append):
            yield _add_to_shard(shards, numbers[index], blocks[numbers[index]], made)
        # A single image may be the reason that a shard killed its workers.
        for index in lost:
            single, killed = [[job] for job in work[index]], list[int]()
            outcomes: list[bytes | Exception] = [crash_error(job) for job in work[index]]
            for place, (outcome,) in ray_cluster.run_jobs(ray, single, prepare, resources, killed.append):
                outcomes[place] = outcome
            if len(killed) == len(single) > 1:
                raise OSError(
                    "workers of the cluster are killed whatever they work on, most likely for lack of memory; run again, which "
                    "goes on where this stopped"
                )
            yield _add_to_shard(shards, numbers[index], blocks[numbers[index]], outcomes)


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


def _attempt(job: Job, work: Callable[[], Outcome]) -> Outcome | Exception:
    """Return the result of ``work``, or its error with the name of the image."""
    try:
        return work()
    except (ValueError, OSError, require("cv2", extra="images").error) as error:
        is_named = Path(job.image).name in str(error) or isinstance(error, MissingPackageError)
        return error if is_named else UserError(f"{job.image}: {error}")


def _add_to_shard(
    shards: Shards, number: int, names: list[str], made: Sequence[bytes | Exception]
) -> list[Exception | None]:
    """Add features to a shard; returns the errors of the other images."""
    shards.add(number, {name: each for name, each in zip(names, made, strict=True) if isinstance(each, bytes)})
    return [None if isinstance(each, bytes) else each for each in made]


def _block_describer(settings: DescribeSettings, threads: int = 1) -> Callable[[list[Job]], list[bytes | Exception]]:
    """Load the model in a worker; returns the function that describes the images of a shard."""
    limit_threads(threads)
    model = load(settings.model, settings.device, engine=settings.engine)

    def describe_block(jobs: list[Job]) -> list[bytes | Exception]:
        found = (describe(job, detect(job, settings), model) for job in jobs)
        return [feature_files.to_bytes(each) if isinstance(each, Features) else each for each in found]

    return describe_block


def _pool(workers: int, settings: DescribeSettings, function: Callable[[Job], Any]) -> ProcessPoolExecutor:
    # "spawn": a forked child of a process that has used torch's threads or a GPU may hang.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, _prepare_worker, (settings, workers, function is _run_in_worker))


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

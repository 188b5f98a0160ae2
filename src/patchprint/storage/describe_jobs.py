"""Describe images in this process, in worker processes or on a cluster; errors of single images are returned as values."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from patchprint.common import files
from patchprint.common.devices import choose_device
from patchprint.common.errors import MissingPackageError, UserError, require
from patchprint.common.processes import WorkerDiedError, run_tasks
from patchprint.common.progress import Stations, note
from patchprint.common.types import Keypoints
from patchprint.detectors import check_detector, searches_on_gpu
from patchprint.features.extract import DescribeSettings, Found, describe_found, find_keypoints
from patchprint.features.model import BASELINES, Model, load
from patchprint.interop import ray_cluster
from patchprint.interop.images import local_path, read_gray
from patchprint.interop.ray_cluster import Cluster
from patchprint.networks.engines import AUTO
from patchprint.storage import feature_files
from patchprint.storage.shards import Shards

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
_WRITERS = 4  # threads, which mostly wait for the disk
_DESCRIBERS = 2  # threads that use a GPU: one prepares while the other waits
# Where a GPU finds keypoints, processes are faster than threads, which wait for Python's lock; but they take seconds to start.
_MANY, _PROCESSES = 2500, 3


@dataclass(frozen=True)
class Job:
    """One image to describe, its mask, and the feature file to write."""

    image: str | Path
    mask: Path | None
    out: Path


Blocks = Sequence[list[Job]]
Prepare = Callable[[], Callable[[list[Job]], list[Any]]]
# Runs blocks of images in workers, each of which calls the Prepare first: numbers of blocks, and the outcome of each image, or
# the error of a block that killed its worker.
Run = Callable[[Blocks, Prepare], Iterator[tuple[int, list[Any] | Exception]]]


def run_jobs(
    jobs: list[Job], settings: DescribeSettings, workers: int, in_hand: Path, stations: Stations
) -> Iterator[tuple[Job, Exception | None]]:
    """Describe images on this machine; yields each job with its error, or None, as they finish.

    Args:
        in_hand: file that names the images at work where this process works alone. One that an interrupted call left there may
            have killed it, and is described in a child process.
        stations: gets the times of reading, finding keypoints, describing and writing, where this process works alone.
    """
    workers = min(workers, len(jobs))
    alone = _is_for_gpu(settings)
    if workers > 1 and (not alone or len(jobs) >= _MANY):
        yield from _run_in_processes(jobs, settings, min(workers, _PROCESSES) if alone else workers)
        return
    suspects = set(in_hand.read_text(encoding="utf-8").splitlines()) if in_hand.is_file() else set()
    at_work: dict[str, None] = {}
    try:
        if suspected := [job for job in jobs if str(job.image) in suspects]:
            yield from _run_in_processes(suspected, settings, min(workers, len(suspected)))
        # Rewritten in place: emptying a file for every image makes some file systems wait for the disk, milliseconds each.
        with open(in_hand, "wb", buffering=0) as names:

            def begun(job: Job) -> Job:
                at_work[str(job.image)] = None
                names.seek(0)
                names.write("\n".join(at_work).encode())
                names.truncate()
                return job

            left = map(begun, [job for job in jobs if str(job.image) not in suspects])
            for job, problem in _run_in_threads(left, settings, workers if alone else 0, stations):
                del at_work[str(job.image)]
                yield job, problem
    finally:
        in_hand.unlink(missing_ok=True)


def _is_for_gpu(settings: DescribeSettings) -> bool:
    """Whether a GPU finds keypoints and describes them, so that the CPU only reads and writes."""
    detector = check_detector(settings.detector, None)
    return searches_on_gpu(detector, choose_device(settings.device)) and settings.model not in BASELINES


def _run_in_threads(
    jobs: Iterator[Job], settings: DescribeSettings, readers: int, stations: Stations
) -> Iterator[tuple[Job, Exception | None]]:
    """Describe images in this process; with ``readers``, threads read ahead for a GPU, and others write behind it."""
    model = load(settings.model, settings.device, engine=settings.engine)

    def read(job: Job) -> tuple[Job, Any]:
        with stations.timed("read"):
            paths = (job.image, job.mask)
            return job, _attempt(
                job, lambda: [None if each is None else read_gray(each, settings.exif) for each in paths]
            )

    def describe(given: tuple[Job, Any]) -> tuple[Job, Any]:
        job, made = given
        if isinstance(made, Exception):
            return given

        def work() -> Any:
            with stations.timed("detect"):
                found = find_keypoints(made[0], settings, mask=made[1], device=model.device)
            with stations.timed("describe"):
                return describe_found(replace(found, path=local_path(job.image)), model)

        return job, _attempt(job, work)

    def write(given: tuple[Job, Any]) -> tuple[Job, Exception | None]:
        job, made = given
        with stations.timed("write"):
            return job, _save(job, made if isinstance(made, Exception) else feature_files.to_bytes(made))

    if not readers:
        yield from map(write, map(describe, map(read, jobs)))
        return
    with (
        ThreadPoolExecutor(readers) as reading,
        ThreadPoolExecutor(_DESCRIBERS) as describing,
        ThreadPoolExecutor(_WRITERS) as writing,
    ):
        images = _map_ahead(reading, read, jobs, 2 * readers)
        features = _map_ahead(describing, describe, images, 2 * _DESCRIBERS)
        yield from _map_ahead(writing, write, features, 2 * _WRITERS)


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
    with ray_cluster.connect(cluster) as ray:
        resources = ray_cluster.worker_resources(ray, settings.device)
        ray_cluster.check_paths_on_nodes(ray, *seen)
        settings = replace(settings, device="cuda", engine=AUTO) if resources.gpus else replace(settings, device="cpu")
        run: Run = partial(ray_cluster.run_jobs, ray, resources=resources, retries=1)
        work = [[jobs[name] for name in names] for names in blocks.values()]
        for index, made in _run_blocks(run, work, partial(_describer, settings, int(resources.cores))):
            number, names = [*blocks.items()][index]
            shards.add(number, {name: each for name, each in zip(names, made, strict=True) if isinstance(each, bytes)})
            yield [None if isinstance(each, bytes) else each for each in made]


def _run_in_processes(
    jobs: list[Job], settings: DescribeSettings, workers: int
) -> Iterator[tuple[Job, Exception | None]]:
    """Describe images in worker processes.

    Where the CPU finds keypoints for a GPU they do only that; this process describes, and it never waits.
    """
    whole = choose_device(settings.device).type == "cpu" or _is_for_gpu(settings)
    model = None if whole else load(settings.model, settings.device, engine=settings.engine)
    prepare = partial(_describer if whole else _detector, settings, max(1, (os.cpu_count() or 1) // workers))
    found = _run_blocks(partial(_run_here, workers), [[job] for job in jobs], prepare)
    made = (
        (jobs[number], each if model is None else _describe(model, jobs[number], each)) for number, (each,) in found
    )
    with ThreadPoolExecutor(_WRITERS) as writers:
        yield from _map_ahead(writers, lambda each: (each[0], _save(*each)), made, 2 * workers)


def _run_here(workers: int, blocks: Blocks, prepare: Prepare) -> Iterator[tuple[int, list[Any] | Exception]]:
    for number, made in run_tasks(prepare, blocks, workers):
        if isinstance(made, WorkerDiedError) and not made.was_ready:
            raise OSError(
                "a worker process was killed, most likely for lack of memory; give fewer --workers and run again, which goes "
                "on where this stopped"
            ) from made
        yield number, made


def _run_blocks(run: Run, blocks: Blocks, prepare: Prepare) -> Iterator[tuple[int, list[Any]]]:
    """Run blocks; the images of one that killed its worker are tried one by one, since a single one may be the reason."""
    lost = []
    for number, made in run(blocks, prepare):
        if isinstance(made, list):
            yield number, made
        else:
            note("a worker process was killed; what it worked on is tried again, one image at a time")
            lost.append(number)
    for number in lost:
        jobs = blocks[number]
        tried = dict(run([[job] for job in jobs], prepare))
        if len(jobs) > 1 and not any(isinstance(made, list) for made in tried.values()):
            raise OSError(
                "workers of the cluster are killed whatever they work on, most likely for lack of memory; run again, which "
                "goes on where this stopped"
            )
        yield number, [_outcome(job, tried[place]) for place, job in enumerate(jobs)]


def _outcome(job: Job, made: list[Any] | Exception) -> Any:
    """The outcome of an image that was worked on alone."""
    if isinstance(made, list):
        return made[0]
    return UserError(
        f"{job.image}: the process that worked on it alone was killed: it is damaged, or there is too little memory"
    )


def _describer(
    settings: DescribeSettings, threads: int | None = None
) -> Callable[[list[Job]], list[bytes | Exception]]:
    """Load the model, in a worker with so many threads; returns the function that describes images, as bytes of files."""
    _limit_threads(threads)
    model = load(settings.model, settings.device, engine=settings.engine)

    def describe(job: Job) -> bytes:
        found = find_keypoints(job.image, settings, mask=job.mask, device=model.device)
        return feature_files.to_bytes(describe_found(found, model))

    return lambda jobs: [_attempt(job, describe, job) for job in jobs]


def _detector(settings: DescribeSettings, threads: int) -> Callable[[list[Job]], list[dict[str, Any] | Exception]]:
    """Prepare a worker that only detects; it sends arrays, since each tensor would cost a handshake for which a GPU waits."""
    _limit_threads(threads)

    def detect(job: Job) -> dict[str, Any]:
        found = find_keypoints(job.image, settings, mask=job.mask)
        return {**vars(found), "keypoints": found.keypoints.to_arrays()}

    return lambda jobs: [_attempt(job, detect, job) for job in jobs]


def _describe(model: Model, job: Job, made: dict[str, Any] | Exception) -> bytes | Exception:
    """Describe what a `_detector` found."""
    if isinstance(made, Exception):
        return made
    found = Found(**{**made, "keypoints": Keypoints.from_arrays(made["keypoints"])})
    return _attempt(job, lambda: feature_files.to_bytes(describe_found(found, model)))


def _limit_threads(number: int | None) -> None:
    """Limit the threads of torch and OpenCV, so that workers do not oversubscribe the CPU."""
    if number is not None:
        torch.set_num_threads(number)
        require("cv2", extra="images").setNumThreads(number)


def _attempt(job: Job, work: Callable[..., Outcome], *arguments: Any) -> Outcome | Exception:
    """Return the result of ``work``, or its error with the name of the image."""
    try:
        return work(*arguments)
    except (ValueError, OSError, require("cv2", extra="images").error) as error:
        is_named = Path(job.image).name in str(error) or isinstance(error, MissingPackageError)
        return error if is_named else UserError(f"{job.image}: {error}")


def _save(job: Job, made: bytes | Exception) -> Exception | None:
    """Write the feature file; returns the error of the image, if there is one."""
    if isinstance(made, Exception):
        return made
    with files.atomic_file(job.out) as temporary:
        temporary.write_bytes(made)
    return None


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

"""Describe images on a cluster: a worker returns the features of a shard, and this process writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from patchprint.common.types import Features
from patchprint.features.extract import DescribeSettings
from patchprint.features.model import load
from patchprint.interop import ray_cluster
from patchprint.interop.ray_cluster import Cluster
from patchprint.networks.engines import AUTO
from patchprint.storage import feature_files
from patchprint.storage.describe_jobs import Job, crash_error, describe, detect, limit_threads
from patchprint.storage.shards import Shards


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
            yield _write(shards, numbers[index], blocks[numbers[index]], made)
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
            yield _write(shards, numbers[index], blocks[numbers[index]], outcomes)


def _write(shards: Shards, number: int, names: list[str], made: Sequence[bytes | Exception]) -> list[Exception | None]:
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

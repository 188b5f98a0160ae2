"""Photos described on a cluster: each worker makes the features of a shard, and this process writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from patchprint.features.model import load
from patchprint.interop import ray_cluster
from patchprint.interop.object_storage import is_url
from patchprint.interop.ray_cluster import Cluster
from patchprint.networks.engines import AUTO
from patchprint.storage import feature_files
from patchprint.storage.describe_jobs import DescribeSettings, Job, described, find, limit_threads
from patchprint.storage.shards import Shards
from patchprint.types import Features


def describe_on_cluster(
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
        for index, found in ray_cluster.spread(
            ray, work, partial(_block_describer, settings, int(room.cores)), room, report
        ):
            number = numbers[index]
            described = dict(zip(blocks[number], found, strict=True))
            shards.add(number, {name: made for name, made in described.items() if isinstance(made, bytes)})
            yield [None if isinstance(made, bytes) else made for made in found]


def _block_describer(settings: DescribeSettings, threads: int = 1) -> Callable[[list[Job]], list[bytes | Exception]]:
    """What a worker of a cluster does, with the model that it loads once."""
    limit_threads(threads)
    model = load(settings.model, settings.device, engine=settings.engine)

    def describe_block(jobs: list[Job]) -> list[bytes | Exception]:
        found = (described(job, find(job, settings), model) for job in jobs)
        return [feature_files.to_bytes(each) if isinstance(each, Features) else each for each in found]

    return describe_block

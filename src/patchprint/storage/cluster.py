"""Photos described on a cluster: each worker makes the features of a shard, and this process writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from patchprint.features.model import load
from patchprint.interop import ray_cluster
from patchprint.interop.object_storage import is_url
from patchprint.interop.ray_cluster import Cluster
from patchprint.networks.engines import AUTO
from patchprint.storage import feature_files
from patchprint.storage.describe_jobs import DescribeSettings, Job, described, find, killer, limit_threads
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
        prepare = partial(_block_describer, settings, int(room.cores))
        lost: list[int] = []
        for index, found in ray_cluster.spread(ray, work, prepare, room, report, on_loss=lost.append):
            yield _written(shards, numbers[index], blocks[numbers[index]], found)
        # Of a block that takes its workers with it one photo may be the reason.
        for index in lost:
            alone, killed = [[job] for job in work[index]], list[int]()
            outcomes: list[bytes | Exception] = [killer(job) for job in work[index]]
            for place, (outcome,) in ray_cluster.spread(ray, alone, prepare, room, report, killed.append):
                outcomes[place] = outcome
            if len(killed) == len(alone) > 1:
                raise OSError(
                    "workers of the cluster are killed whatever they work on, most likely for lack of memory; run again, which "
                    "goes on where this stopped"
                )
            yield _written(shards, numbers[index], blocks[numbers[index]], outcomes)


def _written(
    shards: Shards, number: int, names: list[str], found: Sequence[bytes | Exception]
) -> list[Exception | None]:
    """Put the features of a block into its shard; what is wrong with each of the others."""
    made = {name: each for name, each in zip(names, found, strict=True) if isinstance(each, bytes)}
    shards.add(number, made)
    return [None if isinstance(each, bytes) else each for each in found]


def _block_describer(settings: DescribeSettings, threads: int = 1) -> Callable[[list[Job]], list[bytes | Exception]]:
    """What a worker of a cluster does, with the model that it loads once."""
    limit_threads(threads)
    model = load(settings.model, settings.device, settings.engine).for_keypoints()

    def describe_block(jobs: list[Job]) -> list[bytes | Exception]:
        found = (described(job, find(job, settings), model) for job in jobs)
        return [feature_files.to_bytes(each) if isinstance(each, Features) else each for each in found]

    return describe_block

"""Describe a folder of photos: with several processes, over several machines, and again where it was interrupted."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from patchprint import files
from patchprint.detectors import MAX_KEYPOINTS
from patchprint.errors import UserError
from patchprint.features import storage
from patchprint.features.extract import check_max_size, extract
from patchprint.features.model import DEFAULT_MODEL, Model, load
from patchprint.features.storage import FeatureFolder
from patchprint.interop.images import list_images


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


def describe_folder(
    images: str | Path,
    out: str | Path,
    settings: DescribeSettings | None = None,
    workers: int = 1,
    names: list[str] | None = None,
    report: Callable[[str], None] = print,
    force: bool = False,
) -> FeatureFolder:
    """Features of all photos below a folder, one file each in ``out``.

    Photos that are described already are not described again, as long as the settings are the same; other settings are
    refused, or replace what is there with ``force``. Under torchrun every process takes its share of the photos. Photos
    that cannot be read are named through ``report`` and left out.
    """
    images, out, settings = Path(images), Path(out), settings or DescribeSettings()
    names = list_images(images) if names is None else names
    check_max_size(settings.max_size)
    model = load(settings.model, "cpu").for_keypoints()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if rank == 0:
        _claim(out, images, names, settings, model, force)
    wait_for_all_ranks()
    todo = [name for name in names[rank::world] if not (out / f"{name}.npz").is_file()]
    jobs = [(str(images / name), str(out / f"{name}.npz")) for name in todo]
    progress = tqdm(_run(jobs, settings, workers), total=len(jobs), desc="describing", unit="photo", disable=None)
    for problem in progress:
        if problem:
            report(f"left out: {problem}")
    wait_for_all_ranks()
    features = FeatureFolder(out)
    if not len(features):
        raise UserError(f"none of the {len(names)} photos in {images} could be read")
    return features


def _claim(out: Path, images: Path, names: list[str], settings: DescribeSettings, model: Model, force: bool) -> None:
    """Make ``out`` a folder of these features with a manifest, or go on with one that is."""
    plan = {
        "photos_folder": str(images.resolve()),
        "photos": names,
        "settings": {k: v for k, v in asdict(settings).items() if k != "device"},
        "model": asdict(model.id),
        "ratio": model.ratio,
    }
    contents = [storage.MANIFEST, *(f"{name}.npz" for name in names)]
    inputs = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    files.claim_folder(out, storage.MADE_BY, contents, inputs, force)
    files.write_json(out / storage.MANIFEST, plan)


def _run(jobs: list[tuple[str, str]], settings: DescribeSettings, workers: int) -> Iterator[str | None]:
    if workers <= 1 or len(jobs) <= 1:
        _prepare(settings)
        yield from map(_describe_one, jobs)
        return
    # "spawn": a forked child of a process that has used torch's threads or a GPU may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), context, _prepare_worker, (settings, workers)) as pool:
        yield from pool.map(_describe_one, jobs)


_state: dict[str, tuple[DescribeSettings, Model]] = {}


def _prepare(settings: DescribeSettings) -> None:
    _state["current"] = settings, load(settings.model, settings.device)


def _prepare_worker(settings: DescribeSettings, workers: int) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    _prepare(settings)


def _describe_one(job: tuple[str, str]) -> str | None:
    """Describe one photo; returns what is wrong with it, if anything."""
    image, out = job
    settings, model = _state["current"]
    try:
        features = extract(
            image,
            model,
            max_keypoints=settings.max_keypoints,
            upright=settings.upright,
            detector=settings.detector,
            spread=settings.spread,
            exif=settings.exif,
            max_size=settings.max_size,
        )
    except (ValueError, OSError) as error:
        return str(error)
    storage.save(features, out)
    return None


def wait_for_all_ranks() -> None:
    """Under torchrun: return when every process has come here."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        return
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()

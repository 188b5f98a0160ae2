"""Time models and engines on this machine: ``patchprint bench``.

Contenders take turns, so that a busy moment of the machine does not fall on one of them alone. The scores say what is fast,
not what is good; ``patchprint eval`` measures accuracy.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common import provenance
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError, require
from patchprint.common.progress import Progress
from patchprint.common.provenance import Result
from patchprint.common.registry import Registry
from patchprint.common.table import Table
from patchprint.common.types import Keypoints
from patchprint.data.builders import bundled_images
from patchprint.detectors import detect
from patchprint.features import extract, load
from patchprint.features.model import Model, NetworkModel
from patchprint.interop.images import list_images, read_gray
from patchprint.networks.engines import AUTO, available, chosen, unprepared
from patchprint.networks.network import multiply_adds
from patchprint.networks.weights import weight_names
from patchprint.ops.sampling import ImagePyramids, cut_patches

ROUNDS = 5
SHORTEST = 0.05  # seconds of one measurement: a faster task is repeated within it
PAUSE = 0.01  # seconds before each measurement, in which threads of the library before it stop spinning
PATCH_SIDE = 32  # pixels
PATCH_SCALE = 12.0  # patch side in units of the keypoint's scale: kornia's default
LATENCY = 500  # keypoints, of a camera that is tracked
ON_GPU = 32_768  # patches that keep a GPU busy; a CPU gets those of one image

Task = Callable[[], object]


@dataclass(frozen=True, eq=False)
class BenchImages:
    """Images of one size with the keypoints that all contenders describe.

    Shape:
        images: uint8 (H, W) each; keypoints: at most ``count`` for each, from the detector ``dog``.
    """

    source: str
    images: list[np.ndarray]
    keypoints: list[Keypoints]
    count: int

    def facts(self) -> dict[str, Any]:
        """Return the ``data`` entry of a result."""
        sizes = [f"{image.shape[1]} x {image.shape[0]}" for image in self.images]
        return {"path": self.source, "sizes": sizes, "keypoints": [len(found) for found in self.keypoints]}


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """What is timed, and on what."""

    # Folder of images; default: the stereo pair that scikit-image ships.
    data: Path | None = None
    # How many of the folder to use.
    images: int = 2
    # Size that the images are resized to.
    megapixels: float = 1.0
    # Of each image.
    max_keypoints: int = 2000
    # Which to time; default: all.
    stages: tuple[str, ...] = ()
    # Shipped weights or weight files; default: all that are shipped.
    models: tuple[str, ...] = ()
    # Default: all of this machine in the stage describe; in the others auto and, on a CPU, what it is without OpenVINO.
    engines: tuple[str, ...] = ()
    # Measurements of each contender.
    rounds: int = ROUNDS
    # cpu, cuda, mps or auto.
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, value, fewest in (
            ("images", self.images, 2),
            ("max-keypoints", self.max_keypoints, 1),
            ("rounds", self.rounds, 1),
        ):
            if value < fewest:
                raise UserError(f"--{name} is {value}; give at least {fewest}")
        if not 0.01 <= self.megapixels <= 200:
            raise UserError(f"--megapixels is {self.megapixels:g}; give a number from 0.01 to 200")


def read_images(settings: BenchSettings) -> BenchImages:
    """Read the first images of a folder, or the stereo pair of scikit-image, and resize them to one size.

    Results of images of any size can so be compared; a small image is enlarged.

    Raises:
        UserError: the folder has too few images or no keypoints.
    """
    if settings.data is None:
        pair = bundled_images.stereo_pair()
        source, found = "scikit-image: motorcycle", [pair.left, pair.right]
    else:
        names = list_images(settings.data)[: settings.images]
        if len(names) < 2:
            raise UserError(f"{settings.data} holds one image; give a folder with at least two")
        source, found = str(settings.data), [read_gray(settings.data / name) for name in names]
    images = [_resized(image, settings.megapixels) for image in found]
    detected = [detect(image, "dog", max_keypoints=settings.max_keypoints) for image in images]
    if not all(map(len, detected)):
        raise UserError(f"{source}: an image has no keypoints; give other images with --data")
    return BenchImages(source, images, detected, settings.max_keypoints)


def _resized(image: np.ndarray, megapixels: float) -> np.ndarray:
    cv2 = require("cv2", extra="images")
    factor = (megapixels * 1e6 / image.size) ** 0.5
    kind = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return cv2.resize(image, None, fx=factor, fy=factor, interpolation=kind)


@dataclass(frozen=True)
class Work:
    """The tasks of a stage by the name of the contender; one call processes so many ``images`` and ``patches``."""

    title: str
    tasks: Mapping[str, Task]
    images: int = 1
    patches: int | None = None


def cut_bench_patches(data: BenchImages, device: torch.device) -> Tensor:
    """Cut the patches of the first image, repeated where a GPU needs more: (N, 1, 32, 32) in [0, 1]."""
    patches = cut_patches(ImagePyramids.build(data.images[:1], device), 0, data.keypoints[0], PATCH_SCALE, PATCH_SIDE)
    return patches.repeat(-(-ON_GPU // len(patches)), 1, 1, 1)[:ON_GPU] if device.type == "cuda" else patches


def describing(data: BenchImages, models: Mapping[str, Model], device: torch.device) -> Work:
    patches = cut_bench_patches(data, device)
    title = f"{len(patches)} patches of {PATCH_SIDE} x {PATCH_SIDE}, the network alone"
    tasks = {name: partial(model.describe_patches, patches) for name, model in models.items()}
    return Work(title, tasks, patches=len(patches))


def at_keypoints(
    data: BenchImages, models: Mapping[str, Model], device: torch.device, count: int | None = None
) -> Work:
    image, keypoints = data.images[0], data.keypoints[0][:count]
    tasks = {name: partial(model.describe_keypoints, image, keypoints) for name, model in models.items()}
    return Work(f"{len(keypoints)} keypoints of an image described", tasks, patches=len(keypoints))


def whole_image(data: BenchImages, models: Mapping[str, Model], device: torch.device) -> Work:
    tasks = {
        name: for_each(partial(extract, model=model, max_keypoints=data.count), data.images)
        for name, model in models.items()
    }
    title = f"an image to up to {data.count} descriptors, detection included"
    return Work(title, tasks, images=len(data.images))


def for_each(function: Callable[[np.ndarray], object], images: Sequence[np.ndarray]) -> Task:
    """Return a task that calls ``function`` on every image."""
    return lambda: [function(image) for image in images]


STAGES: Registry[Callable[[BenchImages, Mapping[str, Model], torch.device], Work]] = Registry(
    "stage",
    {
        "describe": describing,
        "keypoints": at_keypoints,
        "latency": partial(at_keypoints, count=LATENCY),
        "image": whole_image,
    },
)


def bench(settings: BenchSettings) -> Result:
    """Time our models in the stages of ``STAGES``."""
    data = read_images(settings)
    started, place, rounds = time.monotonic(), choose_device(settings.device), settings.rounds
    chosen_stages = {name: STAGES[name] for name in settings.stages or STAGES}
    names = settings.engines or engine_names(place)
    # Missing files and engines are found now, not after minutes.
    loaded = {
        (model, engine): load(model, place, engine=engine)
        for model in settings.models or weight_names()
        for engine in names
    }
    facts = {contender_name(*key): facts_of(key[0], model) for key, model in loaded.items()}
    scores = {}
    for stage, prepare in chosen_stages.items():
        chosen = engines_of_stage(stage, names, place)
        work = prepare(data, {contender_name(*k): model for k, model in loaded.items() if k[1] in chosen}, place)
        times = take_turns(stage, work.tasks, rounds, place)
        scores[stage] = {
            "title": work.title,
            "contenders": {name: numbers | facts[name] for name, numbers in summarize(work, times)},
        }
    return record(data, scores, rounds, place, started)


def contender_name(model: str, engine: str) -> str:
    name = Path(model).name
    ours = name if name.startswith("patchprint") else f"patchprint {name}"
    return ours + ("" if engine == AUTO else f", {engine}")


def facts_of(name: str, model: Model) -> dict[str, Any]:
    """Return what a result says about a model."""
    network = {"multiply_adds": multiply_adds(model.network)} if isinstance(model, NetworkModel) else {}
    return {"model": name, "engine": model.engine, "sha256": model.info.sha256, **network}


def engine_names(device: torch.device) -> tuple[str, ...]:
    """Return the engines that this machine can run: ``auto`` first, and the one that it stands for left out."""
    return (AUTO, *(name for name in available(device) if name != chosen(device)))


def engines_of_stage(stage: str, names: Sequence[str], device: torch.device) -> tuple[str, ...]:
    """Return all engines where patches are described; elsewhere those that users get, if ``auto`` is among them."""
    usual = (AUTO, unprepared(device))
    return tuple(name for name in names if stage == "describe" or AUTO not in names or name in usual)


def record(
    data: BenchImages, scores: dict[str, Any], rounds: int, device: torch.device, started: float, **settings: Any
) -> Result:
    """Return the result of scores by stage."""
    rule = "in turns; patches_per_second by the best round, times_faster the median over rounds"
    common = {"device": device.type, "threads": torch.get_num_threads(), "keypoints": data.count, "rounds": rounds}
    found = common | settings | {"rule": rule}
    return provenance.record("speed", settings=found, scores=scores, data=data.facts(), started=started)


def summarize(work: Work, seconds: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each contender with milliseconds of one image, pair or step, and patches a second."""
    for name, rounds in seconds.items():
        found: dict[str, Any] = {
            "best_ms": four_digits(1e3 * min(rounds) / work.images),
            "median_ms": four_digits(1e3 * statistics.median(rounds) / work.images),
        }
        if work.patches is not None:
            found["patches_per_second"] = round(work.patches / min(rounds))
        yield name, found


def four_digits(value: float) -> float:
    return float(f"{value:.4g}")


def take_turns(
    what: str,
    tasks: Mapping[str, Task],
    rounds: int,
    device: torch.device,
    prepare: Callable[[str], object] | None = None,
) -> dict[str, list[float]]:
    """Return the seconds of one call of each task in each round. Its first calls, which may compile, do not count.

    Args:
        prepare: called with the name of the task before each turn, whose first call does not count then.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    with Progress(f"timing {what}", len(tasks) * (rounds + 1), "call") as progress:
        calls = {}
        for name, task in tasks.items():
            _seconds(task, 1, device)
            calls[name] = max(1, math.ceil(SHORTEST / _seconds(task, 1, device)))
            progress.update()
        for _ in range(rounds):
            for name, task in tasks.items():
                time.sleep(PAUSE)
                if prepare is not None:
                    prepare(name)
                    task()
                seconds[name].append(_seconds(task, calls[name], device))
                progress.update()
    return seconds


def _seconds(task: Task, calls: int, device: torch.device) -> float:
    """Return the seconds of one call, with all that it queued on the device."""
    started = time.perf_counter()
    for _ in range(calls):
        task()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - started) / calls


def stage_table(stage: Mapping[str, Any]) -> Table:
    """Return the contenders of one stage of a result, fastest first."""
    scores = stage["contenders"]
    counted = any("patches_per_second" in each for each in scores.values())
    rows = []
    for name, each in sorted(scores.items(), key=lambda item: item[1]["best_ms"]):
        rate = [f"{each['patches_per_second']:,}"] if counted else []
        rows.append([name, *rate, f"{each['best_ms']:,.4g}", f"{each['median_ms']:,.4g}"])
    return Table(["", *["patches/s"] * counted, "ms, best", "ms, median"], rows)

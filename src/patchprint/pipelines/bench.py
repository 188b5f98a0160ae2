"""Time models and engines on this machine: ``patchprint bench``.

Contenders take turns, so that a busy moment of the machine does not fall on one of them alone. The scores say what is fast,
not what is good; ``patchprint eval`` measures accuracy.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
from patchprint.features.model import NetworkModel
from patchprint.interop.images import list_images, read_gray
from patchprint.networks.engines import AUTO, MANY, available, chosen
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


def read_images(folder: Path | None, count: int, megapixels: float, keypoints: int) -> BenchImages:
    """Read the first images of a folder, or the stereo pair of scikit-image, and resize them to one size.

    Results of images of any size can so be compared; a small image is enlarged.

    Raises:
        UserError: a number is out of range, or the folder has too few images or no keypoints.
    """
    if count < 2:
        raise UserError(f"--images is {count}; give at least 2")
    if not 0.01 <= megapixels <= 200:
        raise UserError(f"--megapixels is {megapixels:g}; give a number from 0.01 to 200")
    if keypoints < 1:
        raise UserError(f"--max-keypoints is {keypoints}; give at least 1")
    if folder is None:
        pair = bundled_images.stereo_pair()
        source, found = "scikit-image: motorcycle", [pair.left, pair.right]
    else:
        names = list_images(folder)[:count]
        if len(names) < 2:
            raise UserError(f"{folder} holds one image; give a folder with at least two")
        source, found = str(folder), [read_gray(folder / name) for name in names]
    images = [_resized(image, megapixels) for image in found]
    detected = [detect(image, "dog", max_keypoints=keypoints) for image in images]
    if not all(map(len, detected)):
        raise UserError(f"{source}: an image has no keypoints; give other images with --data")
    return BenchImages(source, images, detected, keypoints)


def _resized(image: np.ndarray, megapixels: float) -> np.ndarray:
    cv2 = require("cv2", extra="images")
    factor = (megapixels * 1e6 / image.size) ** 0.5
    kind = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return cv2.resize(image, None, fx=factor, fy=factor, interpolation=kind)


@dataclass(eq=False)
class Contender:
    """Someone who computes descriptors; a method returns None where it cannot do that by itself.

    Args:
        name: in the result.
        peers: names of the contenders that it is compared with.
        facts: entries of its score.
    """

    name: str
    peers: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def of_patches(self, patches: Tensor) -> Task | None:
        """Return a task: patches (N, 1, 32, 32) on the device, float in [0, 1] -> descriptors on the CPU."""
        return None

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task | None:
        """Return a task: an image uint8 (H, W) and its keypoints -> descriptors on the CPU."""
        return None

    def of_image(self, count: int) -> Callable[[np.ndarray], object] | None:
        """Return a function: an image -> at most ``count`` keypoints with descriptors."""
        return None


class Ours(Contender):
    """One of our models with one of its engines."""

    def __init__(self, model: str, engine: str, device: torch.device) -> None:
        self.model = load(model, device, engine=engine)
        super().__init__(f"patchprint {Path(model).name}" + ("" if engine == AUTO else f", {engine}"))
        self.facts = {"model": model, "engine": self.model.engine, "sha256": self.model.info.sha256}
        if isinstance(self.model, NetworkModel):
            self.facts["multiply_adds"] = multiply_adds(self.model.network)

    def of_patches(self, patches: Tensor) -> Task:
        return lambda: self.model.describe_patches(patches)

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task:
        return lambda: self.model.describe_keypoints(image, keypoints)

    def of_image(self, count: int) -> Callable[[np.ndarray], object]:
        return lambda image: extract(image, self.model, max_keypoints=count)


@dataclass(frozen=True)
class Work:
    """The tasks of a stage by the name of the contender; one call processes so many ``images`` and ``patches``."""

    title: str
    tasks: Mapping[str, Task]
    images: int = 1
    patches: int | None = None
    peers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @staticmethod
    def of(title: str, contenders: Iterable[Contender], tasks: Iterable[Task | None], **counts: int) -> Work:
        """The work of all contenders that have a task."""
        able = [(each, task) for each, task in zip(contenders, tasks, strict=True) if task is not None]
        names = {each.name: task for each, task in able}
        peers, facts = {each.name: each.peers for each, _ in able}, {each.name: each.facts for each, _ in able}
        return Work(title, names, peers=peers, facts=facts, **counts)


def describing(data: BenchImages, contenders: Sequence[Contender], device: torch.device) -> Work:
    patches = cut_patches(ImagePyramids.build(data.images[:1], device), 0, data.keypoints[0], PATCH_SCALE, PATCH_SIDE)
    if device.type == "cuda":
        patches = patches.repeat(-(-ON_GPU // len(patches)), 1, 1, 1)[:ON_GPU]
    title = f"{len(patches)} patches of {PATCH_SIDE} x {PATCH_SIDE}, the network alone"
    return Work.of(title, contenders, [each.of_patches(patches) for each in contenders], patches=len(patches))


def at_keypoints(
    data: BenchImages, contenders: Sequence[Contender], device: torch.device, count: int | None = None
) -> Work:
    image, keypoints = data.images[0], data.keypoints[0][:count]
    tasks = [each.at_keypoints(image, keypoints) for each in contenders]
    return Work.of(f"{len(keypoints)} keypoints of an image described", contenders, tasks, patches=len(keypoints))


def whole_image(data: BenchImages, contenders: Sequence[Contender], device: torch.device) -> Work:
    tasks = [None if (run := each.of_image(data.count)) is None else for_each(run, data.images) for each in contenders]
    title = f"an image to up to {data.count} descriptors, detection included"
    return Work.of(title, contenders, tasks, images=len(data.images))


def for_each(function: Callable[[np.ndarray], object], images: Sequence[np.ndarray]) -> Task:
    """Return a task that calls ``function`` on every image."""

    def run() -> None:
        for image in images:
            function(image)

    return run


STAGES: Registry[Callable[[BenchImages, Sequence[Contender], torch.device], Work]] = Registry(
    "stage",
    {
        "describe": describing,
        "keypoints": at_keypoints,
        "latency": partial(at_keypoints, count=LATENCY),
        "photo": whole_image,
    },
)


def bench(
    data: BenchImages,
    *,
    stages: Sequence[str] = (),
    models: Sequence[str] = (),
    engines: Sequence[str] = (),
    rounds: int = ROUNDS,
    device: str = "auto",
) -> Result:
    """Time our models in the stages of ``STAGES``.

    Args:
        data: from `read_images`.
        stages: names of stages; () takes all.
        models: shipped weights or weight files; () takes all that are shipped.
        engines: () takes all engines of the machine where patches are described, and elsewhere those that users get.
        rounds: turns of each contender.
        device: auto, cpu, cuda or mps.
    """
    started, place = time.monotonic(), choose_device(device)
    check_rounds(rounds)
    chosen_stages = {name: STAGES[name] for name in stages or STAGES}
    names = tuple(engines) or engine_names(place)
    made = {
        engine: [Ours(model, engine, place) for model in models or weight_names()] for engine in names
    }  # missing files and engines are found now, not after minutes
    usual = usual_engines(names)
    scores = {}
    for name, prepare in chosen_stages.items():
        chosen_engines = names if name == "describe" else usual
        contenders = [each for pair in zip(*(made[engine] for engine in chosen_engines), strict=True) for each in pair]
        scores[name] = score(name, prepare(data, contenders, place), rounds, place)
    return record(data, scores, rounds, place, started)


def engine_names(device: torch.device) -> tuple[str, ...]:
    """Return the engines that this machine can run: ``auto`` first, and the one that it stands for left out."""
    return (AUTO, *(name for name in available(device) if name != chosen(device)))


def usual_engines(names: Sequence[str]) -> tuple[str, ...]:
    """Return the engines that users get, for a few images and for many; all where ``auto`` is not among them."""
    return tuple(name for name in names if name in (AUTO, MANY)) if AUTO in names else tuple(names)


def record(
    data: BenchImages,
    scores: dict[str, Any],
    rounds: int,
    device: torch.device,
    started: float,
    **settings: Any,
) -> Result:
    """Return the result of scores by stage."""
    rule = "in turns; patches_per_second by the best round, times_faster the median over rounds"
    common = {"device": device.type, "threads": torch.get_num_threads(), "keypoints": data.count, "rounds": rounds}
    found = common | settings | {"rule": rule}
    return provenance.record("speed", settings=found, scores=scores, data=data.facts(), started=started)


@dataclass(frozen=True)
class Times:
    """Seconds of one call in each round."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def times_faster_than(self, other: Times) -> float:
        """Return the median over the rounds: in each, both were measured within moments of each other."""
        return statistics.median(theirs / own for own, theirs in zip(self.rounds, other.rounds, strict=True))


def check_rounds(rounds: int) -> None:
    """Raise `UserError` for a number of rounds below 1."""
    if rounds < 1:
        raise UserError(f"--rounds is {rounds}; give at least 1")


def score(name: str, work: Work, rounds: int, device: torch.device) -> dict[str, Any]:
    """Time the tasks of a stage: milliseconds of one image, pair or step for each contender."""
    times = take_turns(name, work.tasks, rounds, device)
    contenders: dict[str, Any] = {}
    for contender, taken in times.items():
        found: dict[str, Any] = {
            "best_ms": _four_digits(1e3 * taken.best / work.images),
            "median_ms": _four_digits(1e3 * taken.median / work.images),
        }
        if work.patches is not None:
            found["patches_per_second"] = round(work.patches / taken.best)
        peers = [peer for peer in work.peers.get(contender, ()) if peer in times]
        found["times_faster"] = {peer: _four_digits(taken.times_faster_than(times[peer])) for peer in peers}
        contenders[contender] = found | work.facts.get(contender, {})
    return {"title": work.title, "contenders": contenders}


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")


def take_turns(what: str, tasks: Mapping[str, Task], rounds: int, device: torch.device) -> dict[str, Times]:
    """Time each task in turns. Its first calls, which may compile and allocate, do not count."""
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
                seconds[name].append(_seconds(task, calls[name], device))
                progress.update()
    return {name: Times(tuple(values)) for name, values in seconds.items()}


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
    compared = any(each["times_faster"] for each in scores.values())
    rows = []
    for name, each in sorted(scores.items(), key=lambda item: item[1]["best_ms"]):
        rate = [f"{each['patches_per_second']:,}"] if counted else []
        peers = [", ".join(f"{times:.3g} {peer}" for peer, times in each["times_faster"].items())] if compared else []
        rows.append([name, *rate, f"{each['best_ms']:,.4g}", f"{each['median_ms']:,.4g}", *peers])
    header = ["", *["patches/s"] * counted, "ms, best", "ms, median", *["times faster than"] * compared]
    return Table(header, rows)

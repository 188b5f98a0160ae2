"""The stages of the contest: those of ``patchprint bench`` with more contenders, and more stages."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from patchprint.common.devices import give_memory_back
from patchprint.common.errors import MissingPackageError, require
from patchprint.common.registry import Registry
from patchprint.common.table import Table
from patchprint.common.types import Keypoints
from patchprint.detectors import DETECTORS, detect
from patchprint.features import Model, describe_keypoints, load
from patchprint.features.compress import compress
from patchprint.interop.kornia import to_lafs
from patchprint.matching import match
from patchprint.ops.sampling import ImagePyramids, cut_patches, keypoint_frames
from patchprint.pipelines import bench
from patchprint.pipelines.bench import LATENCY, PATCH_SCALE, PATCH_SIDE, BenchImages, Task, for_each
from perf.speed.contest import _training
from perf.speed.contest._contenders import SIFT, Contender, others, peers_of

MATCHED = "patchprint.tiny"  # its descriptors are matched: 128 floats, or their signs
_MATRIX = 2048  # side of the matrices whose product shows what the machine can do
_COPIED = 256 << 20  # bytes, more than any cache holds
_SMALL = np.zeros((64, 64), np.uint8)  # an image that only asks whether a detector is installed


@dataclass(frozen=True)
class Work(bench.Work):
    """A stage; ``peers``: whom a contender is compared with; ``facts``: entries of its score."""

    peers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def score(self, name: str, rounds: int, device: torch.device) -> dict[str, Any]:
        """Time the contenders; how many times faster one is, is the median over rounds, whose calls are moments apart."""
        times = bench.take_turns(name, self.tasks, rounds, device, _as_in_own_process)
        found = dict(bench.summarize(self, times))
        for contender, numbers in found.items():
            peers = {peer: times[peer] for peer in self.peers.get(contender, ()) if peer in times}
            numbers["times_faster"] = {
                peer: bench.four_digits(
                    statistics.median(theirs / own for own, theirs in zip(times[contender], taken, strict=True))
                )
                for peer, taken in peers.items()
            }
            numbers |= self.facts.get(contender, {})
        return {"title": self.title, "contenders": found}


def _as_in_own_process(contender: str) -> None:
    """Let the others take memory as in a process of their own; `detect` keeps freed memory, which helps OpenCV's SIFT too."""
    if not contender.startswith("patchprint"):
        give_memory_back()


def contest_table(stage: Mapping[str, Any]) -> Table:
    """Return the contenders of one stage, fastest first, with whom they are compared."""
    table, scores = bench.stage_table(stage), stage["contenders"]
    if not any(each["times_faster"] for each in scores.values()):
        return table
    faster = {
        name: ", ".join(f"{times:.3g} {peer}" for peer, times in each["times_faster"].items())
        for name, each in scores.items()
    }
    rows = [[*row, faster[str(row[0])]] for row in table.rows]
    return replace(table, header=[*table.header, "times faster than"], rows=rows)


@dataclass(eq=False)
class Contest:
    """What all stages share; ``left_out`` collects the contenders that are not installed, and why.

    ``wanted`` are the names of others that describe; by default all.
    """

    data: BenchImages
    device: torch.device
    models: Sequence[str]
    engines: Sequence[str]
    wanted: Sequence[str] | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    _models: dict[tuple[str, str], Model] = field(default_factory=dict)
    _others: dict[str, Contender] = field(default_factory=dict)

    def ours(self, engines: Sequence[str]) -> dict[tuple[str, str], Model]:
        """Return our models with these engines; each is loaded once."""
        found = {}
        for model in self.models:
            for engine in engines:
                key = model, engine
                if self.is_there(f"{model}, {engine}", partial(self._load, key)):
                    found[key] = self._models[key]
        return found

    def others(self) -> list[Contender]:
        """Return all others; each is made once."""
        return [
            self._others[name]
            for name, create in others(self.device)
            if (self.wanted is None or name in self.wanted) and self.is_there(name, partial(self._make, name, create))
        ]

    def is_there(self, name: str, attempt: Task) -> bool:
        try:
            attempt()
        except MissingPackageError as error:
            self.left_out[name] = str(error)
            return False
        return True

    def _load(self, key: tuple[str, str]) -> None:
        if key not in self._models:
            self._models[key] = load(key[0], self.device, engine=key[1])

    def _make(self, name: str, create: Callable[[], Contender]) -> None:
        if name not in self._others:
            self._others[name] = create()


def describers(stage: str, contest: Contest) -> Work:
    """A stage of ``patchprint bench`` with all contenders."""
    detect(_SMALL) if stage == "image" else None  # where OpenCV is not installed, nobody has keypoints
    data, ours = contest.data, contest.ours(bench.engines_of_stage(stage, contest.engines, contest.device))
    names = {key: bench.contender_name(*key) for key in ours}
    work = bench.STAGES[stage](data, {names[key]: model for key, model in ours.items()}, contest.device)
    tasks = dict(work.tasks)
    for other in contest.others():
        task: Task | None
        if stage == "describe":
            task = other.of_patches(bench.cut_bench_patches(data, contest.device))
        elif stage == "image":
            run = other.of_image(data.count)
            task = None if run is None else for_each(run, data.images)
        else:
            task = other.at_keypoints(data.images[0], data.keypoints[0][: LATENCY if stage == "latency" else None])
        if task is not None:
            tasks[other.name] = task
    return Work(
        work.title,
        tasks,
        work.images,
        work.patches,
        {names[key]: peers_of(model) for key, model in ours.items()},
        {names[key]: bench.facts_of(key[0], model) for key, model in ours.items()},
    )


def limits(contest: Contest) -> Work:
    """What the machine itself can do: products of large matrices, and a copy that fits into no cache."""
    tasks: dict[str, Task] = {}
    facts: dict[str, dict[str, Any]] = {}
    for kind in (torch.float32, torch.bfloat16):
        name = f"matrix product, {str(kind).removeprefix('torch.')}"
        a, b = (torch.rand(_MATRIX, _MATRIX, device=contest.device).to(kind) for _ in range(2))
        tasks[name] = partial(torch.mm, a, b)
        facts[name] = {"multiply_adds": _MATRIX**3}
    source, target = (torch.zeros(_COPIED, dtype=torch.uint8, device=contest.device) for _ in range(2))
    tasks["copy of memory"] = partial(target.copy_, source)
    facts["copy of memory"] = {"bytes": 2 * _COPIED}
    title = f"matrices of {_MATRIX} x {_MATRIX}, and {_COPIED >> 20} MiB read and written"
    return Work(title, tasks, facts=facts)


def detecting(contest: Contest) -> Work:
    images, count = contest.data.images, contest.data.count
    tasks: dict[str, Task] = {}
    for detector in DETECTORS:
        name, find = (
            f"patchprint {detector}",
            partial(detect, detector=detector, max_keypoints=count, device=contest.device),
        )
        is_plain = "-" not in detector  # settings of one detector do not differ in time, except for affine shape
        if is_plain and contest.is_there(name, partial(find, _SMALL)):
            tasks[name] = for_each(find, images)
    cv2 = require("cv2", extra="images")
    tasks[SIFT] = for_each(partial(cv2.SIFT_create(nfeatures=count).detect, mask=None), images)
    tasks["OpenCV ORB"] = for_each(partial(cv2.ORB_create(nfeatures=count).detect, mask=None), images)
    peers = {name: (SIFT,) for name in tasks if name != SIFT}
    return Work(f"up to {count} keypoints in an image", tasks, images=len(images), peers=peers)


def sampling(contest: Contest) -> Work:
    image, keypoints, device = contest.data.images[0], contest.data.keypoints[0], contest.device
    kept = ImagePyramids.build([image], device)
    tasks: dict[str, Task] = {
        "patchprint": lambda: cut_patches(ImagePyramids.build([image], device), 0, keypoints, PATCH_SCALE, PATCH_SIDE),
        "patchprint, pyramid kept": lambda: cut_patches(kept, 0, keypoints, PATCH_SCALE, PATCH_SIDE),
    }
    if contest.is_there("kornia", partial(require, "kornia.feature", extra="eval")):
        cut = require("kornia.feature", extra="eval").extract_patches_from_pyramid
        lafs = to_lafs(keypoints, PATCH_SCALE / 2).to(device)
        tasks["kornia"] = lambda: cut(torch.from_numpy(image).to(device)[None, None].float() / 255, lafs, PATCH_SIDE)
    if contest.is_there("OpenCV", partial(require, "cv2", extra="images")):
        matrices = _from_patch(keypoints)
        tasks["OpenCV warpAffine"] = lambda: _warp_each(image, matrices)
    peers = {name: ("kornia", "OpenCV warpAffine") for name in tasks if name.startswith("patchprint")}
    title = f"{len(keypoints)} patches of {PATCH_SIDE} x {PATCH_SIDE} cut out of an image"
    return Work(title, tasks, patches=len(keypoints), peers=peers)


def matching(contest: Contest) -> Work:
    pair = zip(contest.data.images[:2], contest.data.keypoints[:2], strict=True)
    a, b = (describe_keypoints(image, keypoints, model=MATCHED) for image, keypoints in pair)
    bits_a, bits_b = (compress(features, "bits") for features in (a, b))
    int8_a, int8_b = (compress(features, "int8") for features in (a, b))
    arrays = {
        "floats": (a.descriptors.numpy(), b.descriptors.numpy()),
        "bits": (bits_a.descriptors.numpy(), bits_b.descriptors.numpy()),
    }
    tasks: dict[str, Task] = {
        "patchprint, floats": lambda: match(a, b, "mutual", device=contest.device),
        "patchprint, int8": lambda: match(int8_a, int8_b, "mutual", device=contest.device),
        "patchprint, bits": lambda: match(bits_a, bits_b, "mutual", device=contest.device),
    }
    if contest.is_there("OpenCV", partial(require, "cv2", extra="images")):
        cv2 = require("cv2", extra="images")
        for kind, norm in (("floats", cv2.NORM_L2), ("bits", cv2.NORM_HAMMING)):
            tasks[f"OpenCV BFMatcher, {kind}"] = partial(cv2.BFMatcher(norm, crossCheck=True).match, *arrays[kind])
    if contest.is_there("FAISS", partial(require, "faiss", extra="eval")):
        tasks["FAISS, floats"] = partial(_mutual_by_faiss, *arrays["floats"])
    if contest.is_there("kornia", partial(require, "kornia.feature", extra="eval")):
        nearest_of_each_other = require("kornia.feature", extra="eval").match_mnn
        tasks["kornia, floats"] = lambda: nearest_of_each_other(
            *(each.descriptors.to(contest.device) for each in (a, b))
        )
    vectors = tuple(name for name in tasks if name.endswith("floats") and not name.startswith("patchprint"))
    peers = {
        "patchprint, floats": vectors,
        "patchprint, int8": vectors,
        "patchprint, bits": ("OpenCV BFMatcher, bits", *vectors),
    }
    title = f"{len(a)} descriptors with {len(b)}, mutual nearest neighbors"
    return Work(title, tasks, peers=peers)


def _mutual_by_faiss(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    faiss = require("faiss", extra="eval")
    of_a, of_b = (faiss.knn(queries, base, 1, metric=faiss.METRIC_L2)[1][:, 0] for queries, base in ((a, b), (b, a)))
    return np.flatnonzero(of_b[of_a] == np.arange(len(a)))


def training(contest: Contest) -> Work:
    pairs = _training.pairs_on(contest.device)
    tasks: dict[str, Task] = {}
    peers = {}
    for recipe in _training.RECIPES:
        own, plain = f"patchprint {recipe}", f"{recipe} as its authors did it"
        source = _training.as_source(contest.data, contest.device)
        tasks[own] = _training.own_step(recipe, source, pairs)
        tasks[plain] = _training.plain_step(_training.config_of(recipe, pairs), source)
        peers[own] = (plain,)
    return Work(f"one training step of {pairs} pairs", tasks, patches=2 * pairs, peers=peers)


STAGES: Registry[Callable[[Contest], Work]] = Registry(
    "stage",
    {
        "detect": detecting,
        "sample": sampling,
        **{name: partial(describers, name) for name in bench.STAGES},
        "match": matching,
        "step": training,
        "limits": limits,
    },
)


def _from_patch(keypoints: Keypoints) -> np.ndarray:
    """For warpAffine, (N, 2, 3): a pixel of the patch to its place in the image."""
    frames = keypoint_frames(keypoints, PATCH_SCALE) * (2 / PATCH_SIDE)
    corner = keypoints.xy[..., None] + frames @ torch.full((2, 1), (1 - PATCH_SIDE) / 2)
    return torch.cat([frames, corner], -1).numpy()


def _warp_each(image: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """One call for each patch, as OpenCV's users do; large patches are aliased, since there is no pyramid."""
    cv2 = require("cv2", extra="images")
    options = {"flags": cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, "borderMode": cv2.BORDER_REPLICATE}
    return np.stack([cv2.warpAffine(image, each, (PATCH_SIDE, PATCH_SIDE), **options) for each in matrices])

"""The stages of the work: for each, what every contender has to do, and how its times are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from patchprint.common.errors import MissingPackageError
from patchprint.common.optional import require
from patchprint.common.registry import Registry
from patchprint.detectors import DETECTORS, detect
from patchprint.features import describe_keypoints
from patchprint.features.compress import compress
from patchprint.interop.kornia import to_lafs
from patchprint.matching import match
from patchprint.networks.engines import AUTO, MANY
from patchprint.ops.sampling import ImagePyramids, cut_patches, keypoint_frames
from patchprint.speed import _training
from patchprint.speed._describers import SIFT, Create, Describer, others, ours
from patchprint.speed._photos import Photos
from patchprint.speed._turns import Task
from patchprint.types import Keypoints

LATENCY = 500  # keypoints, of a camera that is followed
SIDE = 32  # pixels along the patches that every network here takes
PATCH_SCALE = 12.0  # side of a patch in sigma, where only time counts: kornia's default
MATCHED = "hardnet.small"  # its descriptors are matched: 128 floats, or their signs
_MATRIX = 2048  # side of the matrices whose product shows what the machine can do
_COPIED = 256 << 20  # bytes, more than any cache holds
_SMALL = np.zeros((64, 64), np.uint8)  # a photo that only asks whether a detector is installed
ON_GPU = 32_768  # patches that keep a GPU busy; a CPU gets those of one photo


@dataclass(frozen=True)
class Work:
    """What the contenders of a stage do.

    ``tasks`` are calls by the name of the contender; one call is for so many ``photos`` (pairs, steps) and ``patches``.
    ``peers`` names who each is compared with, ``facts`` goes into the result as it is.
    """

    title: str
    tasks: dict[str, Task]
    photos: int = 1
    patches: int | None = None
    peers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: Mapping[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(eq=False)
class Setup:
    """What all stages share; ``left_out`` collects the contenders that are not installed, and why."""

    photos: Photos
    device: torch.device
    models: tuple[str, ...]
    engines: tuple[str, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    _made: dict[str, Describer] = field(default_factory=dict)

    def describers(self, engines: Iterable[str]) -> list[Describer]:
        """Our models with these engines, then all others; each is made once."""
        found = []
        for name, create in (*ours(self.models, tuple(engines), self.device), *others(self.device)):
            if self.is_there(name, partial(self._make, name, create)):
                found.append(self._made[name])
        return found

    @property
    def usual_engines(self) -> tuple[str, ...]:
        """Those that users get, for a few photos and for many; all that were asked for where the first is not among them."""
        return tuple(name for name in self.engines if name in (AUTO, MANY)) if AUTO in self.engines else self.engines

    def is_there(self, name: str, attempt: Task) -> bool:
        try:
            attempt()
        except MissingPackageError as error:
            self.left_out[name] = str(error)
            return False
        return True

    def _make(self, name: str, create: Create) -> None:
        if name not in self._made:
            self._made[name] = create()


def limits(setup: Setup) -> Work:
    """What the machine itself can do: products of large matrices, and a copy that fits into no cache."""
    tasks: dict[str, Task] = {}
    facts: dict[str, dict[str, Any]] = {}
    for kind in (torch.float32, torch.bfloat16):
        name = f"matrix product, {str(kind).removeprefix('torch.')}"
        a, b = (torch.rand(_MATRIX, _MATRIX, device=setup.device).to(kind) for _ in range(2))
        tasks[name] = partial(torch.mm, a, b)
        facts[name] = {"multiply_adds": _MATRIX**3}
    source, target = (torch.zeros(_COPIED, dtype=torch.uint8, device=setup.device) for _ in range(2))
    tasks["copy of memory"] = partial(target.copy_, source)
    facts["copy of memory"] = {"bytes": 2 * _COPIED}
    title = f"matrices of {_MATRIX} x {_MATRIX}, and {_COPIED >> 20} MiB read and written"
    return Work(title, tasks, facts=facts)


def detecting(setup: Setup) -> Work:
    images, count = setup.photos.images, setup.photos.count
    tasks: dict[str, Task] = {}
    for detector in DETECTORS:
        name, find = f"patchprint {detector}", partial(detect, detector=detector, max_keypoints=count)
        is_plain = "-" not in detector  # settings of one detector do not differ in time, except for affine shape
        if is_plain and setup.is_there(name, partial(find, _SMALL)):
            tasks[name] = _for_each(find, images)
    cv2 = require("cv2", extra="images")
    tasks[SIFT] = _for_each(partial(cv2.SIFT_create(nfeatures=count).detect, mask=None), images)
    tasks["OpenCV ORB"] = _for_each(partial(cv2.ORB_create(nfeatures=count).detect, mask=None), images)
    peers = {name: (SIFT,) for name in tasks if name != SIFT}
    return Work(f"up to {count} keypoints in a photo", tasks, photos=len(images), peers=peers)


def sampling(setup: Setup) -> Work:
    image, keypoints, device = setup.photos.images[0], setup.photos.keypoints[0], setup.device
    kept = ImagePyramids.build([image], device)
    tasks: dict[str, Task] = {
        "patchprint": lambda: cut_patches(ImagePyramids.build([image], device), 0, keypoints, PATCH_SCALE, SIDE),
        "patchprint, pyramid kept": lambda: cut_patches(kept, 0, keypoints, PATCH_SCALE, SIDE),
    }
    if setup.is_there("kornia", partial(require, "kornia.feature", extra="eval")):
        cut = require("kornia.feature", extra="eval").extract_patches_from_pyramid
        lafs = to_lafs(keypoints, PATCH_SCALE / 2).to(device)
        tasks["kornia"] = lambda: cut(torch.from_numpy(image).to(device)[None, None].float() / 255, lafs, SIDE)
    if setup.is_there("OpenCV", partial(require, "cv2", extra="images")):
        matrices = _from_patch(keypoints)
        tasks["OpenCV warpAffine"] = lambda: _warp_each(image, matrices)
    peers = {name: ("kornia", "OpenCV warpAffine") for name in tasks if name.startswith("patchprint")}
    title = f"{len(keypoints)} patches of {SIDE} x {SIDE} cut out of a photo"
    return Work(title, tasks, patches=len(keypoints), peers=peers)


def describing(setup: Setup) -> Work:
    image, keypoints = setup.photos.images[0], setup.photos.keypoints[0]
    patches = cut_patches(ImagePyramids.build([image], setup.device), 0, keypoints, PATCH_SCALE, SIDE)
    if setup.device.type == "cuda":
        patches = patches.repeat(-(-ON_GPU // len(patches)), 1, 1, 1)[:ON_GPU]
    tasks = {each: each.of_patches(patches) for each in setup.describers(setup.engines)}
    return _by_describers(f"{len(patches)} patches of {SIDE} x {SIDE}, the network alone", tasks, patches=len(patches))


def at_keypoints(setup: Setup, count: int | None = None) -> Work:
    image, keypoints = setup.photos.images[0], setup.photos.keypoints[0][:count]
    tasks = {each: each.at_keypoints(image, keypoints) for each in setup.describers(setup.usual_engines)}
    return _by_describers(f"{len(keypoints)} keypoints of a photo described", tasks, patches=len(keypoints))


def matching(setup: Setup) -> Work:
    pair = zip(setup.photos.images[:2], setup.photos.keypoints[:2], strict=True)
    a, b = (describe_keypoints(image, keypoints, model=MATCHED) for image, keypoints in pair)
    bits_a, bits_b = (compress(features, "bits") for features in (a, b))
    int8_a, int8_b = (compress(features, "int8") for features in (a, b))
    arrays = {
        "floats": (a.descriptors.numpy(), b.descriptors.numpy()),
        "bits": (bits_a.descriptors.numpy(), bits_b.descriptors.numpy()),
    }
    tasks: dict[str, Task] = {
        "patchprint, floats": lambda: match(a, b, "mutual", device=setup.device),
        "patchprint, int8": lambda: match(int8_a, int8_b, "mutual", device=setup.device),
        "patchprint, bits": lambda: match(bits_a, bits_b, "mutual", device=setup.device),
    }
    if setup.is_there("OpenCV", partial(require, "cv2", extra="images")):
        cv2 = require("cv2", extra="images")
        for kind, norm in (("floats", cv2.NORM_L2), ("bits", cv2.NORM_HAMMING)):
            tasks[f"OpenCV BFMatcher, {kind}"] = partial(cv2.BFMatcher(norm, crossCheck=True).match, *arrays[kind])
    if setup.is_there("FAISS", partial(require, "faiss", extra="eval")):
        tasks["FAISS, floats"] = lambda: match(a, b, "mutual", backend="faiss")
    if setup.is_there("kornia", partial(require, "kornia.feature", extra="eval")):
        nearest_of_each_other = require("kornia.feature", extra="eval").match_mnn
        tasks["kornia, floats"] = lambda: nearest_of_each_other(*(each.descriptors.to(setup.device) for each in (a, b)))
    vectors = tuple(name for name in tasks if name.endswith("floats") and not name.startswith("patchprint"))
    peers = {
        "patchprint, floats": vectors,
        "patchprint, int8": vectors,
        "patchprint, bits": ("OpenCV BFMatcher, bits", *vectors),
    }
    title = f"{len(a)} descriptors with {len(b)}, mutual nearest neighbors"
    return Work(title, tasks, peers=peers)


def training(setup: Setup) -> Work:
    pairs = _training.pairs_on(setup.device)
    tasks: dict[str, Task] = {}
    peers = {}
    for recipe in _training.RECIPES:
        own, plain = f"patchprint {recipe}", f"{recipe} as its authors did it"
        source = _training.as_source(setup.photos, setup.device)
        tasks[own] = _training.own_step(recipe, source, pairs)
        tasks[plain] = _training.plain_step(_training.config_of(recipe, pairs), source)
        peers[own] = (plain,)
    return Work(f"one training step of {pairs} pairs", tasks, patches=2 * pairs, peers=peers)


def whole_photo(setup: Setup) -> Work:
    images, count = setup.photos.images, setup.photos.count
    detect(_SMALL)  # where OpenCV is not installed, nobody has keypoints
    tasks = {
        each: None if (run := each.of_photo(count)) is None else _for_each(run, images)
        for each in setup.describers(setup.usual_engines)
    }
    return _by_describers(f"a photo to up to {count} descriptors, detection included", tasks, photos=len(images))


STAGES: Registry[Callable[[Setup], Work]] = Registry(
    "stage",
    {
        "detect": detecting,
        "sample": sampling,
        "describe": describing,
        "keypoints": at_keypoints,
        "latency": partial(at_keypoints, count=LATENCY),
        "match": matching,
        "step": training,
        "photo": whole_photo,
        "limits": limits,
    },
)


def _by_describers(
    title: str, tasks: Mapping[Describer, Task | None], photos: int = 1, patches: int | None = None
) -> Work:
    able = {each: task for each, task in tasks.items() if task is not None}
    return Work(
        title,
        {each.name: task for each, task in able.items()},
        photos,
        patches,
        {each.name: each.peers for each in able},
        {each.name: each.facts for each in able},
    )


def _for_each(function: Callable[[np.ndarray], object], images: list[np.ndarray]) -> Task:
    def run() -> None:
        for image in images:
            function(image)

    return run


def _from_patch(keypoints: Keypoints) -> np.ndarray:
    """For warpAffine, (N, 2, 3): a pixel of the patch to its place in the photo."""
    frames = keypoint_frames(keypoints, PATCH_SCALE) * (2 / SIDE)
    corner = keypoints.xy[..., None] + frames @ torch.full((2, 1), (1 - SIDE) / 2)
    return torch.cat([frames, corner], -1).numpy()


def _warp_each(image: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """One call for each patch, as OpenCV's users do; large patches are aliased, since there is no pyramid."""
    cv2 = require("cv2", extra="images")
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.stack(
        [cv2.warpAffine(image, each, (SIDE, SIDE), flags=flags, borderMode=cv2.BORDER_REPLICATE) for each in matrices]
    )

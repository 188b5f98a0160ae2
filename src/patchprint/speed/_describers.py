"""Whoever describes keypoints: our models with their engines, kornia's networks, OpenCV's and COLMAP's own features.

kornia's networks have random weights here: time does not depend on them, and nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.optional import require
from patchprint.detectors import detect
from patchprint.features import Model, extract, load
from patchprint.features.model import NetworkModel
from patchprint.interop import colmap_models, opencv
from patchprint.interop.kornia import to_lafs
from patchprint.interop.opencv_features import create_beblid
from patchprint.networks.blocks import FilterResponseNorm2d
from patchprint.networks.engines import AUTO, available, chosen
from patchprint.networks.network import multiply_adds
from patchprint.speed._turns import Task
from patchprint.types import Keypoints

SIFT = "OpenCV SIFT"
_KORNIA = ("HardNet", "HyNet", "SOSNet")
_KORNIA_CHUNK = 8192  # patches that kornia's networks get at a time; all of the usual number


class Describer:
    """One contender. What it cannot do by itself is None: COLMAP has no descriptor of patches.

    ``peers`` are the contenders that it is compared with, ``facts`` what a result says of it.
    """

    name: str
    peers: tuple[str, ...] = ()
    facts: dict[str, Any]

    def __init__(self) -> None:
        self.facts = {}

    def of_patches(self, patches: Tensor) -> Task | None:
        """Patches (N, 1, 32, 32) on the device, float in [0, 1] -> descriptors on the CPU."""
        return None

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task | None:
        """A photo uint8 (H, W) and keypoints that are known -> descriptors on the CPU."""
        return None

    def of_photo(self, count: int) -> Callable[[np.ndarray], object] | None:
        """A photo -> keypoints, at most ``count``, with descriptors."""
        return None


class Ours(Describer):
    def __init__(self, name: str, engine: str, device: torch.device) -> None:
        self.model = load(name, device, engine).for_keypoints()
        self.name = self.called(name, engine)
        self.facts = {"model": name, "engine": self.model.engine, "sha256": self.model.info.sha256}
        if isinstance(self.model, NetworkModel):
            self.facts["multiply_adds"] = multiply_adds(self.model.network)
        self.peers = (_same_trunk(self.model), SIFT)

    @staticmethod
    def called(model: str, engine: str) -> str:
        return f"patchprint {Path(model).name}" + ("" if engine == AUTO else f", {engine}")

    def of_patches(self, patches: Tensor) -> Task:
        return lambda: self.model.describe_patches(patches)

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task:
        return lambda: self.model.describe_keypoints(image, keypoints)

    def of_photo(self, count: int) -> Callable[[np.ndarray], object]:
        return lambda image: extract(image, self.model, max_keypoints=count)


class Kornia(Describer):
    """A network of kornia, eager as its users run it, at the keypoints of our detector."""

    def __init__(self, name: str, device: torch.device) -> None:
        super().__init__()
        self.name, self.device = f"kornia {name}", device
        features = require("kornia.feature", extra="eval")
        self.network = getattr(features, name)(pretrained=False).eval().to(device)
        self.local = features.LAFDescriptor(self.network)

    def of_patches(self, patches: Tensor) -> Task:
        @torch.inference_mode()
        def run() -> Tensor:
            return torch.cat([self.network(part) for part in patches.split(_KORNIA_CHUNK)]).cpu()

        return run

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task:
        lafs = to_lafs(keypoints)
        return lambda: self._describe(image, lafs)

    def of_photo(self, count: int) -> Callable[[np.ndarray], object]:
        return lambda image: self._describe(image, to_lafs(detect(image, "dog", count)))

    @torch.inference_mode()
    def _describe(self, image: np.ndarray, lafs: Tensor) -> Tensor:
        pixels = torch.from_numpy(image).to(self.device)[None, None].float() / 255
        return self.local(pixels, lafs.to(self.device)).cpu()


class OpenCvSift(Describer):
    """SIFT as OpenCV has it by default."""

    name = SIFT

    def __init__(self) -> None:
        super().__init__()
        self.cv2 = require("cv2", extra="images")

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task:
        points, sift = opencv.sift_keypoints(image, keypoints), self.cv2.SIFT_create()
        return lambda: sift.compute(image, points)

    def of_photo(self, count: int) -> Callable[[np.ndarray], object]:
        sift = self.cv2.SIFT_create(nfeatures=count)
        return lambda image: sift.detectAndCompute(image, None)


class OpenCvOrb(Describer):
    """ORB at its own keypoints: it knows no others."""

    name = "OpenCV ORB"

    def __init__(self) -> None:
        super().__init__()
        self.cv2 = require("cv2", extra="images")

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task:
        orb = self.cv2.ORB_create(nfeatures=len(keypoints))
        points = orb.detect(image, None)
        return lambda: orb.compute(image, points)

    def of_photo(self, count: int) -> Callable[[np.ndarray], object]:
        orb = self.cv2.ORB_create(nfeatures=count)
        return lambda image: orb.detectAndCompute(image, None)


class OpenCvBeblid(Describer):
    """BEBLID of 512 bits at SIFT's keypoints."""

    name = "OpenCV BEBLID"

    def __init__(self) -> None:
        super().__init__()
        self.cv2 = require("cv2", extra="images")
        self.beblid = create_beblid("sift")

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task:
        points = opencv.from_keypoints(keypoints)
        return lambda: self.beblid.compute(image, points)

    def of_photo(self, count: int) -> Callable[[np.ndarray], object]:
        sift = self.cv2.SIFT_create(nfeatures=count)
        return lambda image: self.beblid.compute(image, sift.detect(image, None))


class ColmapSift(Describer):
    """SIFT as COLMAP computes it on a CPU; finding and describing cannot be told apart."""

    name = "COLMAP SIFT"

    def __init__(self) -> None:
        super().__init__()
        self.pycolmap = colmap_models.pycolmap

    def of_photo(self, count: int) -> Callable[[np.ndarray], object]:
        options = self.pycolmap.FeatureExtractionOptions()
        options.use_gpu = False
        options.sift.max_num_features = count
        sift = self.pycolmap.Sift(options, device=self.pycolmap.Device.cpu)
        return lambda image: sift.extract(image)


Create = Callable[[], Describer]


def ours(models: Sequence[str], engines: Sequence[str], device: torch.device) -> Iterator[tuple[str, Create]]:
    """Our models with each of the engines, by name."""
    for model in models:
        for engine in engines:
            yield Ours.called(model, engine), partial(Ours, model, engine, device)


def others(device: torch.device) -> Iterator[tuple[str, Create]]:
    """Everyone else, by name."""
    for network in _KORNIA:
        yield f"kornia {network}", partial(Kornia, network, device)
    for classic in (OpenCvSift, OpenCvOrb, OpenCvBeblid, ColmapSift):
        yield classic.name, classic


def engine_names(device: torch.device) -> tuple[str, ...]:
    """The engines of our models that this machine can run, AUTO first, and the one that it stands for left out."""
    return (AUTO, *(name for name in available(device) if name != chosen(device)))


def _same_trunk(model: Model) -> str:
    """The network of kornia with the same kind of layers."""
    modules = model.network.modules() if isinstance(model, NetworkModel) else ()
    return f"kornia {'HyNet' if any(isinstance(each, FilterResponseNorm2d) for each in modules) else 'HardNet'}"

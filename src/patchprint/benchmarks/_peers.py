"""Third-party pipelines from pixels to matches: keypoints, descriptors and matcher as their authors combine them.

Nothing is downloaded: weights are in the packages.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from patchprint.common.provenance import sha256_of_file
from patchprint.common.registry import Registry
from patchprint.features.model import LOWE_RATIO, ModelBase
from patchprint.interop import lightglue, opencv_features, xfeat
from patchprint.interop.image_files import read_color, read_gray
from patchprint.matching import match
from patchprint.networks import ModelInfo
from patchprint.networks.network import Kind
from patchprint.types import Features, Keypoints, Matches, ModelId

Found = tuple[Keypoints, Tensor]  # descriptors (N, D)
Find = Callable[[np.ndarray], Found]
Glued = Callable[[Features, Features], tuple[Tensor, Tensor]]  # matches (M, 2), score (M,)
_DISK_RATIO = 0.95  # what its authors match with (Tyszkiewicz et al. 2020)


class Pipeline(ABC):
    """From a file to matches: keypoints, descriptors and matcher belong together.

    ``finds`` and ``matches`` say in words how.
    """

    finds: str

    @property
    @abstractmethod
    def matches(self) -> str:
        """How it matches, in words."""

    @abstractmethod
    def read(self, path: Path) -> np.ndarray:
        """Read the pixels that it needs, uint8 (H, W) or (H, W, 3)."""

    @abstractmethod
    def extract(self, image: np.ndarray, max_keypoints: int) -> Features:
        """Detect and describe at most so many keypoints of an image."""

    @abstractmethod
    def match(self, a: Features, b: Features) -> Matches:
        """Match the features of two images."""


class Peer(ModelBase, Pipeline):
    """A third-party pipeline; peers with equal ``extractor`` find the same features."""

    extractor: ModelId

    def __init__(self, name: str, finds: str, extractor: ModelId, dim: int, kind: Kind = "float") -> None:
        self.finds, self.extractor = finds, extractor
        self.info = ModelInfo(name, network="", dim=dim, kind=kind, patch_scale=0.0, sha256=extractor.sha256)

    @abstractmethod
    def find(self, image: np.ndarray, max_keypoints: int) -> Found:
        """Detect and describe at most so many keypoints of an image; descriptors (N, D)."""

    def extract(self, image: np.ndarray, max_keypoints: int) -> Features:
        keypoints, descriptors = self.find(image, max_keypoints)
        return Features(keypoints, descriptors, (image.shape[1], image.shape[0]), None, self.id)


class NearestNeighbors(Peer):
    """A pipeline that matches mutual nearest neighbors, with a ratio test where its authors use one."""

    ratio_test: float | None = None

    @property
    def matches(self) -> str:
        ratio = "" if self.ratio_test is None else f", ratio {self.ratio_test:g}"
        return f"mutual nearest neighbors{ratio}"

    def match(self, a: Features, b: Features) -> Matches:
        return match(a, b, "mutual" if self.ratio_test is None else "mutual+ratio", ratio=self.ratio_test)


class OfOpenCv(NearestNeighbors):
    """Features of OpenCV, found in gray pixels."""

    def __init__(
        self,
        name: str,
        finds: str,
        find: Callable[[np.ndarray, int], Found],
        dim: int,
        kind: Kind,
        ratio: float | None,
    ) -> None:
        super().__init__(name, finds, ModelId(name), dim, kind)
        self.ratio_test, self._find = ratio, find
        find(np.zeros((64, 64), np.uint8), 1)  # a package that is missing is told of before the work begins

    def read(self, path: Path) -> np.ndarray:
        return read_gray(path)

    def find(self, image: np.ndarray, max_keypoints: int) -> Found:
        return self._find(image, max_keypoints)


class Glue(NamedTuple):
    """A network that matches: its name, its weights, and what makes it."""

    name: str
    weights: Path
    create: Callable[[], Glued]


class Learned(NearestNeighbors):
    """Features of a network, found in color, and matched by a network too where there is ``glue``.

    ``extractor`` makes what finds at most so many keypoints.
    """

    def __init__(
        self,
        name: str,
        finds: str,
        weights: Path,
        dim: int,
        extractor: Callable[[int], Find],
        ratio: float | None = None,
        glue: Glue | None = None,
    ) -> None:
        super().__init__(name, finds, ModelId(name, sha256_of_file(weights)), dim)
        if glue is not None:
            joined = f"{name}+{glue.name.lower()}"
            self.info = dataclasses.replace(self.info, name=joined, sha256=sha256_of_file(glue.weights))
        self.ratio_test, self.glue, self._extractor = ratio, glue, extractor
        self._extractors: dict[int, Find] = {}

    @property
    def matches(self) -> str:
        return self.glue.name if self.glue else super().matches

    def read(self, path: Path) -> np.ndarray:
        return read_color(path)

    @torch.inference_mode()
    def find(self, image: np.ndarray, max_keypoints: int) -> Found:
        if max_keypoints not in self._extractors:
            self._extractors[max_keypoints] = self._extractor(max_keypoints)
        return self._extractors[max_keypoints](image)

    def match(self, a: Features, b: Features) -> Matches:
        if self._matcher is None:
            return super().match(a, b)
        indices, score = self._matcher(a, b)
        return Matches(indices, 1 - score, score=score)

    @cached_property
    def _matcher(self) -> Glued | None:
        return self.glue.create() if self.glue else None


def _of_opencv(name: str, *parts: Any) -> Callable[[str], Peer]:
    return lambda device: OfOpenCv(name, *parts)


def _aliked(kind: str, glued: bool = False) -> Callable[[str], Peer]:
    return lambda device: Learned(
        kind,
        f"ALIKED, at most {lightglue.LONGEST} px, score above 0.2",
        lightglue.weights(kind),
        128,
        lambda count: lightglue.Extractor(kind, count, device),
        glue=_lightglue("aliked", device) if glued else None,
    )


def _disk(glued: bool = False) -> Callable[[str], Peer]:
    return lambda device: Learned(
        "disk",
        f"DISK (depth), at most {lightglue.LONGEST} px",
        lightglue.weights("disk-depth-save"),
        128,
        lambda count: lightglue.Extractor("disk", count, device),
        _DISK_RATIO,
        _lightglue("disk", device) if glued else None,
    )


def _lightglue(features: str, device: str) -> Glue:
    return Glue("LightGlue", lightglue.matcher_weights(features), partial(lightglue.Matcher, features, device))


def _xfeat(glued: bool = False) -> Callable[[str], Peer]:
    return lambda device: Learned(
        "xfeat",
        "XFeat (sparse), score above 0.05",
        xfeat.weights("xfeat"),
        64,
        lambda count: xfeat.Extractor(count, device),
        glue=Glue("LighterGlue", xfeat.weights(xfeat.MATCHER), partial(xfeat.Matcher, device)) if glued else None,
    )


# By name: what makes the pipeline on a device.
PEERS: Registry[Callable[[str], Peer]] = Registry(
    "pipeline",
    {
        "opencv-sift": _of_opencv(
            "opencv-sift", "OpenCV SIFT, RootSIFT", opencv_features.rootsift, 128, "float", LOWE_RATIO
        ),
        "orb": _of_opencv("orb", "OpenCV ORB", opencv_features.orb, 256, "binary", None),
        "beblid": _of_opencv("beblid", "OpenCV ORB, BEBLID 512", opencv_features.beblid, 512, "binary", LOWE_RATIO),
        "aliked-n16": _aliked("aliked-n16"),
        "aliked-n16rot": _aliked("aliked-n16rot"),
        "aliked-n16+lightglue": _aliked("aliked-n16", glued=True),
        "disk": _disk(),
        "disk+lightglue": _disk(glued=True),
        "xfeat": _xfeat(),
        "xfeat+lighterglue": _xfeat(glued=True),
    },
)

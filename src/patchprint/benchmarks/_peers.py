"""Third-party pipelines from pixels to matches: keypoints, descriptors and matcher as their authors combine them.

Nothing is downloaded: weights are in the packages.
"""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from patchprint.common.provenance import sha256_of_file
from patchprint.common.registry import Registry
from patchprint.common.types import Features, Keypoints, Matches, ModelId
from patchprint.features.model import LOWE_RATIO, ModelBase
from patchprint.interop import lightglue, opencv, xfeat
from patchprint.interop.images import read_color, read_gray
from patchprint.matching import match
from patchprint.networks import ModelInfo
from patchprint.networks.network import Kind

Find = Callable[[np.ndarray], tuple[Keypoints, Tensor]]  # descriptors (N, D)
_DISK_RATIO = 0.95  # what its authors match with (Tyszkiewicz et al. 2020)


class Glue(NamedTuple):
    """A network that matches: its name, its weights, and what creates it; it returns matches (M, 2) and score (M,)."""

    name: str
    weights: Path
    create: Callable[[], Callable[[Features, Features], tuple[Tensor, Tensor]]]


class Peer(ModelBase):
    """A third-party pipeline from a file to matches; peers with equal ``extractor`` find the same features.

    Args:
        create: returns what finds at most so many keypoints.
        ratio: threshold of the ratio test, where its authors test mutual nearest neighbors so.
        glue: what matches instead of nearest neighbors.
    """

    def __init__(
        self,
        extractor: ModelId,
        finds: str,
        dim: int,
        create: Callable[[int], Find],
        *,
        kind: Kind = "float",
        read: Callable[[Path], np.ndarray] = read_color,
        ratio: float | None = None,
        glue: Glue | None = None,
    ) -> None:
        self.extractor, self.finds, self.read, self._ratio = extractor, finds, read, ratio
        self._finder, self._glue = cache(create), cache(glue.create) if glue else None
        name, sha256 = extractor.name, extractor.sha256
        self.matches = "mutual nearest neighbors" + ("" if ratio is None else f", ratio {ratio:g}")
        if glue:
            name, sha256, self.matches = f"{name}+{glue.name.lower()}", sha256_of_file(glue.weights), glue.name
        self.info = ModelInfo(name, network="", dim=dim, kind=kind, patch_scale=0.0, sha256=sha256)

    @torch.inference_mode()
    def extract(self, image: np.ndarray, max_keypoints: int) -> Features:
        keypoints, descriptors = self._finder(max_keypoints)(image)
        return Features(keypoints, descriptors, (image.shape[1], image.shape[0]), None, self.id)

    def match(self, a: Features, b: Features) -> Matches:
        if self._glue is None:
            return match(a, b, "mutual" if self._ratio is None else "mutual+ratio", ratio=self._ratio)
        indices, score = self._glue()(a, b)
        return Matches(indices, 1 - score, score=score)


def _opencv(
    name: str,
    finds: str,
    find: Callable[[np.ndarray, int], tuple[Keypoints, Tensor]],
    dim: int,
    kind: Kind,
    ratio: float | None,
    device: str,
) -> Peer:
    find(np.zeros((64, 64), np.uint8), 1)  # a missing package is named before the work begins
    return Peer(
        ModelId(name),
        finds,
        dim,
        lambda count: lambda image: find(image, count),
        kind=kind,
        read=read_gray,
        ratio=ratio,
    )


def _aliked(kind: str, device: str, glued: bool = False) -> Peer:
    extractor = ModelId(kind, sha256_of_file(lightglue.weights(kind)))
    finds = f"ALIKED, at most {lightglue.LONGEST} px, score above 0.2"
    glue = _lightglue("aliked", device) if glued else None
    return Peer(extractor, finds, 128, partial(lightglue.Extractor, kind, device=device), glue=glue)


def _disk(device: str, glued: bool = False) -> Peer:
    extractor = ModelId("disk", sha256_of_file(lightglue.weights("disk-depth-save")))
    finds, glue = f"DISK (depth), at most {lightglue.LONGEST} px", _lightglue("disk", device) if glued else None
    create = partial(lightglue.Extractor, "disk", device=device)
    return Peer(extractor, finds, 128, create, ratio=_DISK_RATIO, glue=glue)


def _xfeat(device: str, glued: bool = False) -> Peer:
    extractor = ModelId("xfeat", sha256_of_file(xfeat.weights("xfeat")))
    glue = Glue("LighterGlue", xfeat.weights(xfeat.MATCHER), partial(xfeat.Matcher, device)) if glued else None
    finds = "XFeat (sparse), score above 0.05"
    return Peer(extractor, finds, 64, partial(xfeat.Extractor, device=device), glue=glue)


def _lightglue(features: str, device: str) -> Glue:
    return Glue("LightGlue", lightglue.matcher_weights(features), partial(lightglue.Matcher, features, device))


# By name: what makes the pipeline on a device.
PEERS: Registry[Callable[[str], Peer]] = Registry(
    "pipeline",
    {
        "opencv-sift": partial(
            _opencv, "opencv-sift", "OpenCV SIFT, RootSIFT", opencv.rootsift, 128, "float", LOWE_RATIO
        ),
        "orb": partial(_opencv, "orb", "OpenCV ORB", opencv.orb, 256, "binary", None),
        "beblid": partial(_opencv, "beblid", "OpenCV ORB, BEBLID 512", opencv.beblid, 512, "binary", LOWE_RATIO),
        "aliked-n16": partial(_aliked, "aliked-n16"),
        "aliked-n16rot": partial(_aliked, "aliked-n16rot"),
        "aliked-n16+lightglue": partial(_aliked, "aliked-n16", glued=True),
        "disk": _disk,
        "disk+lightglue": partial(_disk, glued=True),
        "xfeat": _xfeat,
        "xfeat+lighterglue": partial(_xfeat, glued=True),
    },
)

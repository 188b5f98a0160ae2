"""The others: kornia's networks, features of OpenCV and COLMAP.

kornia's networks have random weights here: time does not depend on them, and nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import require
from patchprint.common.types import Keypoints
from patchprint.detectors import detect
from patchprint.features import Model
from patchprint.features.model import NetworkModel
from patchprint.features.sift import points_of_image
from patchprint.interop import colmap_models, opencv
from patchprint.interop.kornia import to_lafs
from patchprint.networks.hynet import FilterResponseNorm2d
from patchprint.pipelines.bench import Task

SIFT = "OpenCV SIFT"
_KORNIA = ("HardNet", "HyNet", "SOSNet")
_KORNIA_CHUNK = 8192  # patches that kornia's networks get at a time; all of the usual number


class Contender:
    """One of the others; a method returns None where it cannot do that by itself."""

    name: str

    def of_patches(self, patches: Tensor) -> Task | None:
        """Return a task: patches (N, 1, 32, 32) on the device, float in [0, 1] -> descriptors on the CPU."""
        return None

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task | None:
        """Return a task: an image uint8 (H, W) and its keypoints -> descriptors on the CPU."""
        return None

    def of_image(self, count: int) -> Callable[[np.ndarray], object] | None:
        """Return a function: an image -> at most ``count`` keypoints with descriptors."""
        return None


class Kornia(Contender):
    """A network of kornia, in eager mode as its users run it, at the keypoints of our detector."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name = f"kornia {name}"
        self.device = device
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

    def of_image(self, count: int) -> Callable[[np.ndarray], object]:
        return lambda image: self._describe(image, to_lafs(detect(image, "dog", max_keypoints=count)))

    @torch.inference_mode()
    def _describe(self, image: np.ndarray, lafs: Tensor) -> Tensor:
        pixels = torch.from_numpy(image).to(self.device)[None, None].float() / 255
        return self.local(pixels, lafs.to(self.device)).cpu()


class OpenCvSift(Contender):
    """SIFT with the defaults of OpenCV."""

    def __init__(self) -> None:
        self.name = SIFT
        self.cv2 = require("cv2", extra="images")

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task:
        points, sift = points_of_image(image, keypoints), self.cv2.SIFT_create()
        return lambda: sift.compute(image, points)

    def of_image(self, count: int) -> Callable[[np.ndarray], object]:
        sift = self.cv2.SIFT_create(nfeatures=count)
        return lambda image: sift.detectAndCompute(image, None)


class OpenCvOrb(Contender):
    """ORB at its own keypoints: it cannot describe others."""

    def __init__(self) -> None:
        self.name = "OpenCV ORB"
        self.cv2 = require("cv2", extra="images")

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task:
        orb = self.cv2.ORB_create(nfeatures=len(keypoints))
        points = orb.detect(image, None)
        return lambda: orb.compute(image, points)

    def of_image(self, count: int) -> Callable[[np.ndarray], object]:
        orb = self.cv2.ORB_create(nfeatures=count)
        return lambda image: orb.detectAndCompute(image, None)


class OpenCvBeblid(Contender):
    """BEBLID of 512 bits at SIFT's keypoints."""

    def __init__(self) -> None:
        self.name = "OpenCV BEBLID"
        self.cv2 = require("cv2", extra="images")
        self.beblid = opencv.create_beblid("sift")

    def at_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> Task:
        points = opencv.from_keypoints(keypoints)
        return lambda: self.beblid.compute(image, points)

    def of_image(self, count: int) -> Callable[[np.ndarray], object]:
        sift = self.cv2.SIFT_create(nfeatures=count)
        return lambda image: self.beblid.compute(image, sift.detect(image, None))


class ColmapSift(Contender):
    """SIFT as COLMAP computes it on a CPU; detection and description are one call."""

    def __init__(self) -> None:
        self.name = "COLMAP SIFT"
        self.pycolmap = colmap_models.pycolmap

    def of_image(self, count: int) -> Callable[[np.ndarray], object]:
        options = self.pycolmap.FeatureExtractionOptions()
        options.use_gpu = False
        options.sift.max_num_features = count
        sift = self.pycolmap.Sift(options, device=self.pycolmap.Device.cpu)
        return lambda image: sift.extract(image)


Create = Callable[[], Contender]


def others(device: torch.device) -> Iterator[tuple[str, Create]]:
    """Yield names of contenders and functions that make them, which raise `MissingPackageError`."""
    for network in _KORNIA:
        yield f"kornia {network}", partial(Kornia, network, device)
    classic = {SIFT: OpenCvSift, "OpenCV ORB": OpenCvOrb, "OpenCV BEBLID": OpenCvBeblid, "COLMAP SIFT": ColmapSift}
    yield from classic.items()


def peers_of(model: Model) -> tuple[str, ...]:
    """Return whom one of our models is compared with: the network of kornia with the same kind of layers, and SIFT."""
    modules = model.network.modules() if isinstance(model, NetworkModel) else ()
    is_hynet = any(isinstance(each, FilterResponseNorm2d) for each in modules)
    return f"kornia {'HyNet' if is_hynet else 'HardNet'}", SIFT

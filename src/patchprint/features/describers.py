"""Everything that turns patches or keypoints into prints, behind one interface: networks, SIFT, RootSIFT and raw pixels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.errors import UserError
from patchprint.interop import opencv
from patchprint.networks import PatchNetwork, weights
from patchprint.patches.sampler import ImagePyramids, cut_patches
from patchprint.types import Keypoints, ModelId

BASELINES = ("sift", "rootsift", "pixels")
DEFAULT_MODEL = "sdgmnet"
_CHUNK = 1024  # keypoints whose patches are in memory at a time


class Describer(ABC):
    """Makes prints of one kind.

    ``kind`` is "float" (unit vectors, compared by Euclidean distance) or "binary" (packed bits, Hamming distance); ``dim``
    is the number of values or bits; ``patch_scale`` the side of a patch in units of the keypoint's scale; ``input_size``
    the pixels along that side; ``ratio`` the calibrated threshold of the ratio test, or None.
    """

    id: ModelId
    kind: Literal["float", "binary"] = "float"
    dim: int
    patch_scale: float = 12.0
    input_size: int = 32
    ratio: float | None = None

    @abstractmethod
    def describe_patches(self, patches: Tensor) -> Tensor:
        """Prints of patches.

        Shape:
            patches (N, 1, S, S) uint8 or float in [0, 1] -> (N, dim) float32, or (N, dim // 8) uint8 packed bits, on the CPU.
        """

    def describe_keypoints(self, image: np.ndarray, keypoints: Keypoints, upright: bool = False) -> Tensor:
        """Prints at keypoints of a picture, uint8 (H, W); ``upright`` ignores their angles. The width is right for N = 0."""
        if len(keypoints) == 0:
            return self.describe_patches(torch.zeros(0, 1, self.input_size, self.input_size))
        if upright:
            keypoints = keypoints.upright()
        pyramids = ImagePyramids.build([image], self._sampling_device())
        parts = []
        for start in range(0, len(keypoints), _CHUNK):
            chosen = keypoints[start : start + _CHUNK]
            parts.append(self.describe_patches(cut_patches(pyramids, 0, chosen, self.patch_scale, self.input_size)))
        return torch.cat(parts)

    def _sampling_device(self) -> torch.device:
        return torch.device("cpu")


class NetworkDescriber(Describer):
    """A patch network with its weights."""

    def __init__(self, network: PatchNetwork) -> None:
        info = network.info
        self.network = network
        self.id = ModelId(info.name, info.sha256)
        self.kind, self.dim = network.kind, network.dim
        self.patch_scale, self.input_size, self.ratio = info.patch_scale, network.input_size, info.ratio

    def describe_patches(self, patches: Tensor) -> Tensor:
        size = self.input_size
        if patches.ndim == 4 and patches.shape[-1] != size and len(patches):
            values = patches.float() / (255 if patches.dtype == torch.uint8 else 1)
            patches = F.interpolate(values, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
        elif len(patches) == 0:
            patches = torch.zeros(0, 1, size, size)
        return self.network.describe(patches).cpu()

    def _sampling_device(self) -> torch.device:
        return next(self.network.parameters()).device


class SiftDescriber(Describer):
    """OpenCV's SIFT or RootSIFT, on the picture itself, or on a patch at one upright keypoint that covers it."""

    dim = 128
    patch_scale = opencv.SIFT_GRID

    def __init__(self, root: bool) -> None:
        self.root = root
        self.id = ModelId("rootsift" if root else "sift")

    def describe_patches(self, patches: Tensor) -> Tensor:
        return torch.from_numpy(opencv.sift_patches(_to_uint8(patches), self.root))

    def describe_keypoints(self, image: np.ndarray, keypoints: Keypoints, upright: bool = False) -> Tensor:
        if upright:
            keypoints = keypoints.upright()
        if keypoints.affine is not None:  # OpenCV knows round keypoints only: straighten the ellipse first
            return super().describe_keypoints(image, keypoints)
        return torch.from_numpy(opencv.sift_descriptors(image, keypoints, self.root))


class PixelDescriber(Describer):
    """The patch itself, 16 x 16 grey values without their mean, unit length: the floor that any descriptor must beat."""

    side = 16
    dim = side * side
    id = ModelId("pixels")

    def describe_patches(self, patches: Tensor) -> Tensor:
        if len(patches) == 0:
            return torch.zeros(0, self.dim)
        values = F.adaptive_avg_pool2d(patches.float().cpu(), self.side).flatten(1)
        return F.normalize(values - values.mean(1, keepdim=True), dim=1)


def create(model: str | Path | PatchNetwork | Describer, device: str | torch.device = "cpu") -> Describer:
    """A describer from the name of a baseline or of weights, a weight file, or a loaded network."""
    if isinstance(model, Describer):
        return model
    if isinstance(model, PatchNetwork):
        return NetworkDescriber(model)
    name = str(model)
    if name in ("sift", "rootsift"):
        return SiftDescriber(root=name == "rootsift")
    if name == "pixels":
        return PixelDescriber()
    return NetworkDescriber(weights.load_network(model, device=choose_device(device)))


def choose_device(device: str | torch.device = "auto") -> torch.device:
    """A torch device; "auto" takes CUDA, then MPS, then the CPU. One that is not there is refused by name."""
    name = str(device)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kind = name.partition(":")[0]
    if kind not in available:
        raise UserError(f"unknown device {name!r}; known are auto, cpu, cuda, cuda:N and mps")
    if not available[kind]:
        raise UserError(f"this machine has no {kind} device that PyTorch can use; take --device cpu")
    return torch.device(name)


def _to_uint8(patches: Tensor) -> np.ndarray:
    values = patches.detach().cpu()
    if values.dtype != torch.uint8:
        values = (values.float().clamp(0, 1) * 255).round().to(torch.uint8)
    return values[:, 0].contiguous().numpy()

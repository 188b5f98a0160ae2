"""Frames of keypoints, learned from photos: the direction and the elliptic shape that another photo of the place has too.

A detector takes its angle from the strongest gradient, and where two are nearly as strong, the next photo takes the other one.
A small network looks at 32 x 32 pixels around the keypoint, as the detector framed it, and answers with a turn and a stretch
that bring the frame to where the network would have brought the same place in any other photo. It learned from tracks, through
a descriptor; ``perf/release/train_frames.py`` makes the weights.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from patchprint.devices import one_core
from patchprint.errors import UserError
from patchprint.sampler import ImagePyramids, cut_patches
from patchprint.types import Keypoints

Frames = Literal["detector", "learned"]

WEIGHTS = Path(__file__).with_name("frames.safetensors")
SIDE = 32  # pixels
PATCH_SCALE = 20.0  # side of the patch in units of the keypoint's scale
_WIDTH = 16
_LONGEST, _MOST_SHEAR = 0.7, 1.4  # logarithm of the stretch, and shear: ellipses of about four to one
_CHUNK = 1024  # keypoints at a time; more of them leave the cache
_FAINT = 0.01  # deviations of pixels below this are noise, and are not made larger


class FrameNetwork(nn.Module):
    """A turn and a stretch for each patch, by which its frame is multiplied from the right.

    The stretch is lower triangular with determinant one: it leaves the vertical where it is, so that all turning is left to
    the turn. It starts as the identity.

    Shape:
        patches (N, 1, 32, 32) in [0, 1] -> turn (N, 2, 2), stretch (N, 2, 2).
    """

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        centers = (2 * torch.arange(SIDE) + 1) / SIDE - 1
        radius = torch.hypot(centers[:, None], centers[None, :])
        # Round, so that a patch that is turned shows nothing new in its corners.
        self.register_buffer("window", (4 * (1.0 - radius)).clamp(0, 1), persistent=False)
        self.trunk = nn.Sequential(
            *_layer(1, _WIDTH, stride=2),
            *_layer(_WIDTH, _WIDTH),
            *_layer(_WIDTH, 2 * _WIDTH, stride=2),
            *_layer(2 * _WIDTH, 2 * _WIDTH),
            *_layer(2 * _WIDTH, 4 * _WIDTH, stride=2),
            *_layer(4 * _WIDTH, 4 * _WIDTH),
        )
        self.direction = nn.Conv2d(4 * _WIDTH, 2, SIDE // 8)
        self.shape = nn.Conv2d(4 * _WIDTH, 2, SIDE // 8)
        nn.init.zeros_(self.shape.weight)
        assert self.shape.bias is not None
        nn.init.zeros_(self.shape.bias)

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:
        centered = patches - patches.mean((2, 3), keepdim=True)
        deviation = centered.square().mean((2, 3), keepdim=True).sqrt()
        maps = self.trunk(centered / (deviation + _FAINT) * self.window)
        cos, sin = F.normalize(self.direction(maps).flatten(1), dim=1).unbind(1)
        longer, shear = torch.tanh(self.shape(maps).flatten(1)).unbind(1)
        stretched = torch.exp(_LONGEST * longer)
        return _matrices(cos, -sin, sin, cos), _matrices(
            stretched, torch.zeros_like(shear), _MOST_SHEAR * shear, 1 / stretched
        )


def _layer(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]


def _matrices(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """Rows (a, b) and (c, d) of each, (N, 2, 2)."""
    return torch.stack([a, b, c, d], -1).unflatten(-1, (2, 2))


def read_network(path: str | Path) -> FrameNetwork:
    """The network that ``perf/release/train_frames.py`` wrote."""
    network = FrameNetwork()
    network.load_state_dict({name: value.float() for name, value in load_file(path).items()}, strict=False)
    return network.eval().requires_grad_(False)


@cache
def _network() -> FrameNetwork:
    return read_network(WEIGHTS)


def check_frames(frames: str) -> None:
    """Raise UserError where there are no such frames."""
    if frames not in get_args(Frames):
        raise UserError(f"unknown frames {frames!r}; known are {', '.join(get_args(Frames))}")
    if frames == "learned" and not WEIGHTS.is_file():
        raise UserError(f"learned frames need weights, which are not in {WEIGHTS}; take the frames of the detector")


@torch.no_grad()
def with_learned_frames(
    image: np.ndarray,
    keypoints: Keypoints,
    turned: bool = True,
    stretched: bool = True,
    network: FrameNetwork | None = None,
) -> Keypoints:
    """The keypoints of an image, uint8 (H, W), in the same order and with the same scores, but with frames by a network.

    It looks at the frames that they have, and turns or stretches them, or both; by default it is the shipped one.
    """
    network = network or _network()
    if len(keypoints) == 0:
        return keypoints
    with one_core():
        patches = cut_patches(ImagePyramids.build([image]), 0, keypoints, PATCH_SCALE, SIDE)
        turn, stretch = (
            torch.cat(parts) for parts in zip(*(network(part) for part in patches.split(_CHUNK)), strict=True)
        )
    frames = keypoints.frames()
    frames = frames @ stretch if stretched else frames
    frames = frames @ turn if turned else frames
    return Keypoints.from_affine(keypoints.xy, frames, keypoints.score)

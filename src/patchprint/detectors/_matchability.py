"""Matchability: the learned probability that a keypoint is detected again and matched correctly in another image.

A detector's response measures contrast in one image only. A small network predicts matchability from 16 x 16 pixels around the
keypoint, its scale and its response; it was trained on warped images and the keypoints of `dog`.
``perf/release/train_matchability.py`` makes the weights.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from patchprint.common.devices import single_thread
from patchprint.common.types import Keypoints
from patchprint.detectors import FAINTEST
from patchprint.ops.sampling import ImagePyramids, cut_patches

WEIGHTS = Path(__file__).with_name("matchability.safetensors")
SIDE = 16  # pixels
PATCH_SCALE = 16.0  # side of the patch in units of the keypoint's scale
_WIDTH, _HIDDEN = 8, 32
_CHUNK = 1024  # keypoints at a time; more of them leave the cache
_DARK = 1e-3  # contrasts below this are all alike


class MatchabilityNetwork(nn.Module):
    """Log-odds that keypoints are matched rightly. ``center`` and ``spread`` are those of `numbers` in the examples.

    Shape:
        patches (N, 1, 16, 16) in [0, 1], scale (N,), response (N,) -> (N,)
    """

    center: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(3))
        self.register_buffer("spread", torch.ones(3))
        self.first = nn.Conv2d(1, _WIDTH, 3, stride=2, padding=1)
        self.second = nn.Conv2d(_WIDTH, 2 * _WIDTH, 3, stride=2, padding=1)
        self.third = nn.Linear(2 * _WIDTH * (SIDE // 4) ** 2 + 3, _HIDDEN)
        self.last = nn.Linear(_HIDDEN, 1)

    def forward(self, patches: Tensor, scale: Tensor, response: Tensor) -> Tensor:
        deviation = _deviation(patches)
        centered = patches - patches.mean((2, 3), keepdim=True)
        maps = F.relu(self.first(centered / (deviation + 0.01)[:, None, None, None]))
        maps = F.relu(self.second(maps)).flatten(1)
        standardized = (numbers(patches, scale, response) - self.center) / self.spread
        return self.last(F.relu(self.third(torch.cat([maps, standardized.clamp(-4, 4)], 1))))[:, 0]


def numbers(patches: Tensor, scale: Tensor, response: Tensor) -> Tensor:
    """Logarithms of scale, response and contrast of keypoints, (N, 3)."""
    return torch.stack([scale.log(), response.clamp(min=FAINTEST).log(), (_deviation(patches) + _DARK).log()], 1)


def _deviation(patches: Tensor) -> Tensor:
    """Standard deviation of the pixels of each patch, (N,); several times faster than torch.std."""
    centered = (patches - patches.mean((2, 3), keepdim=True)).flatten(1)
    return (centered.square().sum(1) / (SIDE**2 - 1)).sqrt()


@cache
def _network() -> MatchabilityNetwork:
    network = MatchabilityNetwork()
    network.load_state_dict({name: value.float() for name, value in load_file(WEIGHTS).items()})
    return network.eval().requires_grad_(False)


def cut(image: np.ndarray, keypoints: Keypoints) -> Tensor:
    """Cut the input patches of the network: image uint8 (H, W) -> (N, 1, 16, 16)."""
    return cut_patches(ImagePyramids.build([image]), 0, keypoints, PATCH_SCALE, SIDE)


@torch.no_grad()
def with_matchability(image: np.ndarray, keypoints: Keypoints) -> Keypoints:
    """Replace the scores of keypoints, which must be `dog`'s responses, by their matchability in [0, 1]; image uint8 (H, W)."""
    if len(keypoints) == 0:
        return keypoints
    assert keypoints.score is not None
    with single_thread():
        inputs = (cut(image, keypoints), keypoints.scale, keypoints.score)
        log_odds = torch.cat(
            [_network()(*parts) for parts in zip(*(each.split(_CHUNK) for each in inputs), strict=True)]
        )
    return dataclasses.replace(keypoints, score=torch.sigmoid(log_odds))

"""Describers without weights for tests of benchmarks: constant, random, perfect up to noise, binary."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from patchprint.features.describers import Describer, PixelDescriber
from torch import Tensor

from patchprint.types import ModelId


class ConstantDescriber(Describer):
    """The same print for every patch: must score chance everywhere."""

    id = ModelId("constant", "c0")
    dim = 8

    def describe_patches(self, patches: Tensor) -> Tensor:
        return F.normalize(torch.ones(len(patches), self.dim), dim=1)


class CountingPixels(PixelDescriber):
    """Raw pixels, counting the patches it was asked for."""

    def __init__(self, sha256: str = "") -> None:
        self.id = ModelId("counting", sha256)
        self.asked = 0

    def describe_patches(self, patches: Tensor) -> Tensor:
        self.asked += len(patches)
        return super().describe_patches(patches)


class BinaryPixels(Describer):
    """256 bits: whether each of 16 x 16 pixels is brighter than the mean."""

    id = ModelId("binary", "b0")
    kind = "binary"
    dim = 256

    def describe_patches(self, patches: Tensor) -> Tensor:
        values = F.adaptive_avg_pool2d(patches.float(), 16).flatten(1)
        bits = (values > values.mean(1, keepdim=True)).numpy()
        return torch.from_numpy(np.packbits(bits, axis=1))

"""Models without weights for tests of benchmarks: constant, perfect up to noise, binary; of patches and of whole images."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.features.image_model import ImageModel
from patchprint.features.model import Model, PixelModel
from patchprint.networks import ModelInfo


class ConstantModel(Model):
    """The same descriptor for every patch: must score chance everywhere."""

    info = ModelInfo("constant", network="", dim=8, sha256="c0")

    def describe_patches(self, patches: Tensor) -> Tensor:
        return F.normalize(torch.ones(len(patches), self.dim), dim=1)


class CountingPixels(PixelModel):
    """Raw pixels, counting the patches it was asked for."""

    def __init__(self, sha256: str = "", input_size: int = 32) -> None:
        self.info = ModelInfo("counting", network="", dim=self.side**2, sha256=sha256, input_size=input_size)
        self.asked = 0

    def describe_patches(self, patches: Tensor) -> Tensor:
        self.asked += len(patches)
        return super().describe_patches(patches)


class BinaryPixels(Model):
    """256 bits: whether each of 16 x 16 pixels is brighter than the mean."""

    info = ModelInfo("binary", network="", dim=256, kind="binary", sha256="b0")

    def describe_patches(self, patches: Tensor) -> Tensor:
        values = F.adaptive_avg_pool2d(patches.float(), 16).flatten(1)
        bits = (values > values.mean(1, keepdim=True)).numpy()
        return torch.from_numpy(np.packbits(bits, axis=1))


class ConstantImages(ImageModel):
    """The same embedding, of length 3, for every image."""

    def __init__(self) -> None:
        self.info = ModelInfo("constant", network="", dim=9, sha256="c1", channels=3)

    def raw(self, squares: Tensor) -> Tensor:
        return torch.ones(len(squares), self.dim, device=squares.device)

    features = raw


class ColorImages(ImageModel):
    """The mean color of an image without gray, of length ``scale`` times its own; counts the images it was asked for."""

    def __init__(self, sha256: str = "c2", scale: float = 1.0) -> None:
        self.info = ModelInfo("colors", network="", dim=3, sha256=sha256, channels=3)
        self.scale, self.asked = scale, 0

    def raw(self, squares: Tensor) -> Tensor:
        self.asked += len(squares)
        return self.scale * (squares.mean((2, 3)) - 0.5)

    features = raw

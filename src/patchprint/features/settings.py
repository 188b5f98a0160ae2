"""How keypoints are detected and described: one settings object for Python, command line, HTTP API and clusters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from patchprint.common.errors import UserError
from patchprint.common.registry import check_options
from patchprint.detectors import MAX_KEYPOINTS, check_detector
from patchprint.networks.engines import AUTO

DEFAULT_MODEL = "sdgmnet"
SMALLEST = 32  # pixels along the longer side of an image that was made smaller
Settings = TypeVar("Settings", bound="DetectSettings")


@dataclass(frozen=True, kw_only=True)
class DetectSettings:
    """How keypoints are found in an image; valid once constructed."""

    # What finds keypoints; the affine detectors are for views from far apart.
    detector: str = "dog"
    # Most keypoints of an image; those with the highest responses are kept.
    max_keypoints: int | None = MAX_KEYPOINTS
    # Shrink an image whose longer side has more pixels than this (default: never); coordinates stay those of the image.
    max_size: int | None = None
    # Set all angles to zero: better where the camera was always held level, hopeless where it was not.
    upright: bool = False
    # Distribute keypoints over the image; without it the strongest are kept, wherever they are.
    spread: bool = True
    # Turn the image as its EXIF orientation says; by default pixels are taken as stored, as COLMAP does.
    exif: bool = False

    def __post_init__(self) -> None:
        check_detector(self.detector, self.max_keypoints)
        if self.max_size is not None and self.max_size < SMALLEST:
            raise UserError(f"max_size must be at least {SMALLEST} pixels, got {self.max_size}")


@dataclass(frozen=True, kw_only=True)
class DescribeSettings(DetectSettings):
    """How images are described; settings that differ in ``device`` and ``engine`` alone give equal features."""

    # Shipped weights (sdgmnet.fast is the fast one), a baseline, or a weight file.
    model: str = DEFAULT_MODEL
    # auto, cpu, cuda or mps.
    device: str = "auto"
    # How the network is computed (`networks.engines.ENGINES`); float32 is exact; auto: what the machine has.
    engine: str = AUTO


def changed(settings: Settings, fields: Mapping[str, Any], owner: str) -> Settings:
    """Return the settings with some fields replaced; ``owner`` is the function that an unknown field is reported for.

    Raises:
        UserError: for a name that is no field, with the names that are close to it.
    """
    if not fields:
        return settings
    check_options(owner, fields, [field.name for field in dataclasses.fields(settings)])
    return dataclasses.replace(settings, **fields)

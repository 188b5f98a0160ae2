"""Two images to matches: the settings of ``patchprint match A B``, of the page and of its HTTP API, and what they answer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args

from patchprint.common.errors import UserError
from patchprint.detectors import MAX_KEYPOINTS, check_detector
from patchprint.features.extract import check_max_size, extract
from patchprint.features.model import DEFAULT_MODEL, Model
from patchprint.interop.image_files import ImageLike
from patchprint.matching.nearest_neighbors import DEFAULT_MODE, Mode, check_rule
from patchprint.matching.pair_selection import match_pairs
from patchprint.storage.match_formats import as_json
from patchprint.types import Features, Keypoints, Matches

Geometry = Literal["auto", "homography", "fundamental", "none"]


@dataclass(frozen=True)
class MatchSettings:
    """How two images are matched; the fields are called like the flags of ``patchprint match``, whose help explains them."""

    model: str = DEFAULT_MODEL
    detector: str = "dog"
    max_keypoints: int = MAX_KEYPOINTS
    max_size: int | None = None
    upright: bool = False
    spread: bool = True
    exif: bool = False
    mode: Mode = DEFAULT_MODE
    ratio: float | None = None
    geometry: Geometry = "auto"

    def check(self) -> None:
        """Raise UserError where the work would, except for what is wrong with the model and the images."""
        check_rule(self.mode, self.ratio)
        check_detector(self.detector, self.max_keypoints)
        check_max_size(self.max_size)
        if self.geometry not in get_args(Geometry):
            raise UserError(f"unknown geometry {self.geometry!r}; known are {', '.join(get_args(Geometry))}")

    def extract(self, image: ImageLike, model: Model, keypoints: Keypoints | None = None) -> Features:
        """Features of one image by the ``model``, loaded; of given ``keypoints`` where they are known."""
        return extract(
            image,
            model,
            keypoints,
            max_keypoints=self.max_keypoints,
            upright=self.upright,
            detector=self.detector,
            spread=self.spread,
            exif=self.exif,
            max_size=self.max_size,
        )

    def match(self, a: Features, b: Features, device: str = "cpu") -> Matches:
        """Matches of two images, verified where a geometry is asked for."""
        geometry = None if self.geometry == "none" else self.geometry
        (found,) = match_pairs(
            {"a": a, "b": b}, [("a", "b")], self.mode, self.ratio, geometry=geometry, device=device
        ).values()
        return found

    def by_default(self, model: str) -> MatchSettings:
        """The same for another model, with its own ratio."""
        return dataclasses.replace(self, model=model, ratio=None)


def answer(a: Features, b: Features, found: Matches, seconds: float) -> dict[str, Any]:
    """What ``patchprint match A B --json`` prints."""
    return {"model": a.model.name, **as_json(a.keypoints, b.keypoints, found), "seconds": seconds}

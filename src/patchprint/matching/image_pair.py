"""Two images to matches: the settings of ``patchprint match A B``, of the page and of its HTTP API, and what they answer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from patchprint.detectors import MAX_KEYPOINTS
from patchprint.features.extract import extract
from patchprint.features.model import Model
from patchprint.features.settings import DEFAULT_MODEL, DetectSettings
from patchprint.interop.image_files import ImageLike
from patchprint.matching import settings as of_matching
from patchprint.matching.matchers import DEFAULT_MATCHER
from patchprint.matching.settings import Geometry, match_and_verify
from patchprint.storage.match_formats import as_json
from patchprint.types import Features, Keypoints, Matches

Mode = Literal["mutual", "ratio", "mutual+ratio", "fginn", "nearest"]


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
    mode: Mode = DEFAULT_MATCHER  # type: ignore[assignment]
    ratio: float | None = None
    geometry: Geometry = "auto"

    def detection(self) -> DetectSettings:
        """The part that says how keypoints are detected."""
        names = [field.name for field in dataclasses.fields(DetectSettings)]
        return DetectSettings(**{name: getattr(self, name) for name in names})

    def matching(self) -> of_matching.MatchSettings:
        """The part that says how features are matched."""
        return of_matching.MatchSettings(matcher=self.mode, ratio=self.ratio, geometry=self.geometry)

    def check(self) -> None:
        """Raise UserError where the work would, except for what is wrong with the model and the images."""
        self.detection()
        self.matching()

    def extract(self, image: ImageLike, model: Model, keypoints: Keypoints | None = None) -> Features:
        """Features of one image by the ``model``, loaded; of given ``keypoints`` where they are known."""
        return extract(image, model, settings=self.detection(), keypoints=keypoints)

    def match(self, a: Features, b: Features, device: str = "cpu") -> Matches:
        """Matches of two images, verified where a geometry is asked for."""
        return match_and_verify(a, b, self.matching(), device=device)

    def by_default(self, model: str) -> MatchSettings:
        """The same for another model, with its own ratio."""
        return dataclasses.replace(self, model=model, ratio=None)


def answer(a: Features, b: Features, found: Matches, seconds: float) -> dict[str, Any]:
    """What ``patchprint match A B --json`` prints."""
    return {"model": a.model.name, **as_json(a.keypoints, b.keypoints, found), "seconds": seconds}

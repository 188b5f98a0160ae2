"""What the page and the API answer: matches of two photos, a picture of them, and what a keypoint looks like to a model.

A `Desk` remembers the photos and features of the last questions, so that another ratio or another look at the same photos
describes nothing again. Answers are values of JSON; pictures in them are base64.
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError, suggest
from patchprint.features import draw_matches, load
from patchprint.features.model import Model
from patchprint.interop.image_files import decode_color, decode_gray
from patchprint.matching.image_pair import MatchSettings, answer
from patchprint.matching.two_view_geometry import THRESHOLD
from patchprint.networks.engines import AUTO
from patchprint.ops.distances import nearest
from patchprint.ops.geometry import epipolar_errors, homography_errors
from patchprint.ops.sampling import ImagePyramids, cut_patches
from patchprint.storage.match_formats import as_json, names_of_two, write_matches
from patchprint.types import Features, Keypoints, Matches
from patchprint.web.limits import Limits
from patchprint.web.recent import Recent

BASELINES = ("sift", "rootsift")
NEIGHBORS = 10
PATCH_PIXELS = 64
MOST_KEYPOINTS = 20_000  # which bounds what features take of the memory
LINES = 150  # more of them show nothing
PANEL_PIXELS = 900  # along the longer side of one photo in the picture
_ENDS = 6.0  # pixels of the picture
_GROUND = 128  # neither light nor dark, as the page may be both
_CHOSEN, _NEAR = (255, 210, 60), (110, 190, 255)  # colors of the rings
# Two photos of two people, with what a comparison asks for at some settings.
_PHOTOS, _FEATURES = 4, 24


@dataclass(frozen=True, eq=False)
class Photo:
    """A file that was uploaded."""

    name: str
    data: bytes

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Spot:
    """Which keypoint is looked at: the one nearest to a place of the picture, in parts of its width and height, or a number.

    A number counts the keypoints of the first photo, strongest first.
    """

    x: float = 0.0
    y: float = 0.0
    number: int | None = None


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two photos as a model describes them."""

    model: Model
    a: Features
    b: Features
    found: Matches


class Desk:
    """Answers questions about two photos.

    Args:
        models: what may be asked for: names, and the name or weight file that `patchprint.load` takes for each.
    """

    def __init__(
        self, models: Mapping[str, str], limits: Limits | None = None, device: str = "auto", engine: str = AUTO
    ) -> None:
        self._known = dict(models)
        self._limits = limits or Limits()
        self._device, self._engine = str(choose_device(device)), engine
        self._models: Recent[Model] = Recent(len(self._known))
        self._gray: Recent[np.ndarray] = Recent(_PHOTOS)
        self._panels: Recent[np.ndarray] = Recent(_PHOTOS)
        self._features: Recent[Features] = Recent(_FEATURES)

    def match(self, photos: Sequence[Photo], settings: MatchSettings) -> dict[str, Any]:
        """What ``patchprint match A B --json`` prints."""
        started = time.monotonic()
        pair = self._pair(photos, settings)
        return answer(pair.a, pair.b, pair.found, round(time.monotonic() - started, 3))

    def show(self, photos: Sequence[Photo], settings: MatchSettings, baseline: str = BASELINES[0]) -> dict[str, Any]:
        """Numbers of a model and of a baseline on the same keypoints, a picture of the model's matches, and its table."""
        pair = self._pair(photos, settings)
        other = self._pair(photos, settings.by_default(baseline), on=pair)
        canvas = self._picture(photos, settings, pair)
        return {
            "numbers": [_numbers(pair, settings), _numbers(other, settings.by_default(baseline))],
            "picture": _drawn(canvas, pair),
            "csv": _table(photos, pair),
        }

    def look(
        self, photos: Sequence[Photo], settings: MatchSettings, spot: Spot, baseline: str = BASELINES[0]
    ) -> dict[str, Any]:
        """The patch of one keypoint and those nearest to it in the other photo, to a model and to a baseline."""
        pair = self._pair(photos, settings)
        other = self._pair(photos, settings.by_default(baseline), on=pair)
        panels = self._two_panels(photos, settings)
        layout = draw_matches.Layout.of(panels, pair.a, pair.b)
        side, index = _chosen(pair, layout, spot)
        canvas = self._picture(photos, settings, pair)
        views = [self._neighbors(photos, settings, each, side, index) for each in (pair, other)]
        sides = (pair.a, pair.b)
        for near in views[0]["near"]:
            draw_matches.ring(canvas, layout.place(1 - side, np.array([near["x"], near["y"]])), 6, _NEAR)
        xy = sides[side].keypoints.xy[index].tolist()
        draw_matches.ring(canvas, layout.place(side, np.array(xy)), 9, _CHOSEN)
        return {
            "numbers": _numbers(pair, settings),
            "picture": _drawn(canvas, pair),
            "photo": photos[side].name,
            "side": side,
            "keypoint": index,
            "of": len(sides[side]),
            "x": xy[0],
            "y": xy[1],
            "scale": float(sides[side].keypoints.scale[index]),
            "views": views,
        }

    def _pair(self, photos: Sequence[Photo], settings: MatchSettings, on: _Pair | None = None) -> _Pair:
        """Matches of two photos; of the keypoints of another pair where they are known, which must be those it would find."""
        settings.check()
        if settings.max_keypoints > MOST_KEYPOINTS:
            raise UserError(f"max_keypoints is at most {MOST_KEYPOINTS} here, got {settings.max_keypoints}")
        model = self._model(settings.model)
        for photo in photos:  # both, before work begins
            self._limits.check_photo(photo.data, photo.name)
            self._pixels(photo, settings.exif)
        given = (None, None) if on is None else (on.a.keypoints, on.b.keypoints)
        a, b = (self._described(photo, settings, model, known) for photo, known in zip(photos, given, strict=True))
        return _Pair(model, a, b, settings.match(a, b, self._device))

    def _model(self, name: str) -> Model:
        if name not in self._known:
            raise UserError(f"there is no model {name!r}; {suggest(name, self._known)}")
        return self._models.get(name, lambda: load(self._known[name], self._device, engine=self._engine))

    def _pixels(self, photo: Photo, exif: bool) -> np.ndarray:
        return self._gray.get((photo.key, exif), lambda: decode_gray(photo.data, photo.name, exif))

    def _described(self, photo: Photo, settings: MatchSettings, model: Model, known: Keypoints | None) -> Features:
        # What has nothing to do with one photo is left out of the key.
        key = photo.key, astuple(replace(settings, mode="nearest", ratio=None, geometry="none"))
        return self._features.get(key, lambda: settings.extract(self._pixels(photo, settings.exif), model, known))

    def _panel(self, photo: Photo, exif: bool) -> np.ndarray:
        def make() -> np.ndarray:
            return draw_matches.panel(decode_color(photo.data, photo.name, exif), PANEL_PIXELS)

        return self._panels.get((photo.key, exif), make)

    def _two_panels(self, photos: Sequence[Photo], settings: MatchSettings) -> draw_matches.Panels:
        first, second = photos
        return self._panel(first, settings.exif), self._panel(second, settings.exif)

    def _picture(self, photos: Sequence[Photo], settings: MatchSettings, pair: _Pair) -> np.ndarray:
        panels = self._two_panels(photos, settings)
        return draw_matches.picture(
            panels, pair.a, pair.b, pair.found, LINES, outliers=True, keypoints=True, ground=_GROUND
        )

    def _neighbors(
        self, photos: Sequence[Photo], settings: MatchSettings, pair: _Pair, side: int, index: int
    ) -> dict[str, Any]:
        """The patch of a keypoint as the model sees it, and the nearest in the other photo."""
        here, there = (pair.a, pair.b) if side == 0 else (pair.b, pair.a)
        distance, number = nearest(here.descriptors[index : index + 1], there.descriptors, NEIGHBORS)
        rows = number[0][number[0] >= 0]
        matched = _match_of(pair, side, index)
        agreeing = _agreeing(pair, side, index, rows)
        patches = self._patches(photos[1 - side], settings, pair.model, there.keypoints[rows])
        (own,) = self._patches(photos[side], settings, pair.model, here.keypoints[torch.tensor([index])])
        near = [
            {
                "patch": patch,
                "distance": float(distance[0, place]),
                "keypoint": int(row),
                "x": float(there.keypoints.xy[row, 0]),
                "y": float(there.keypoints.xy[row, 1]),
                "is_match": int(row) == matched,
                "agrees": None if agreeing is None else bool(agreeing[place]),
            }
            for place, (row, patch) in enumerate(zip(rows.tolist(), patches, strict=True))
        ]
        return {"model": pair.model.info.name, "kind": pair.model.kind, "patch": own, "near": near}

    def _patches(self, photo: Photo, settings: MatchSettings, model: Model, keypoints: Keypoints) -> list[str]:
        """The patches of keypoints as files of PNG in base64."""
        pyramids = ImagePyramids.build([self._pixels(photo, settings.exif)])
        patches = cut_patches(pyramids, 0, keypoints, model.patch_scale, PATCH_PIXELS)
        gray = (patches[:, 0].clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        return [_as_text(np.repeat(each[..., None], 3, -1), ".png") for each in gray]


def _numbers(pair: _Pair, settings: MatchSettings) -> dict[str, Any]:
    """The numbers of `answer`, without its lists, and the ratio that was used."""
    all_of_it = as_json(pair.a.keypoints, pair.b.keypoints, pair.found)
    numbers = {name: value for name, value in all_of_it.items() if not isinstance(value, list)}
    ratio = settings.ratio if settings.ratio is not None else pair.a.ratio
    verdict = "" if pair.found.verdict is None else str(pair.found.verdict)
    return {"model": pair.model.info.name, **numbers, "ratio": ratio, "sentence": verdict}


def _drawn(canvas: np.ndarray, pair: _Pair) -> dict[str, Any]:
    """A picture of matches, its width by its height, and how many lines it has."""
    height, width = canvas.shape[:2]
    return {"jpeg": _as_text(canvas, ".jpg"), "ratio": width / height, "lines": min(LINES, len(pair.found))}


def _table(photos: Sequence[Photo], pair: _Pair) -> str:
    """The file that ``patchprint match A B --out matches.csv`` writes."""
    first, second = photos
    folders = ("a", "b") if first.name == second.name and first.data != second.data else ("", "")
    _, names = names_of_two(*(Path(folder) / photo.name for folder, photo in zip(folders, photos, strict=True)))
    with tempfile.TemporaryDirectory(prefix="patchprint-table-") as folder:
        out = Path(folder) / "matches.csv"
        write_matches(dict(zip(names, (pair.a, pair.b), strict=True)), {names: pair.found}, out, two=True)
        return out.read_bytes().decode("utf-8")


def _chosen(pair: _Pair, layout: draw_matches.Layout, spot: Spot) -> tuple[int, int]:
    """Image (0 or 1) and index of the keypoint that is looked at."""
    if spot.number is not None:
        if not 0 <= spot.number < len(pair.a):
            raise UserError(f"there is no keypoint {spot.number}; the first photo has {len(pair.a)}, counted from 0")
        return 0, spot.number
    side, place = layout.find(spot.x * layout.size[0], spot.y * layout.size[1])
    points = (pair.a, pair.b)[side].keypoints.xy
    if not len(points):
        raise UserError("no keypoint was found in this photo")
    away = (points - torch.tensor(place)).norm(dim=1) * layout.scales[side]
    # Who clicks near the end of a line means that one.
    matched = pair.found.indices[:, side]
    if len(matched) and float(away[matched].min()) < _ENDS:
        return side, int(matched[away[matched].argmin()])
    return side, int(away.argmin())


def _match_of(pair: _Pair, side: int, index: int) -> int | None:
    """The keypoint of the other image that is matched with this one."""
    row = (pair.found.indices[:, side] == index).nonzero()
    return int(pair.found.indices[row[0, 0], 1 - side]) if len(row) else None


def _agreeing(pair: _Pair, side: int, index: int, others: torch.Tensor) -> np.ndarray | None:
    """Which keypoints of the other image (K,) would agree with the geometry that was found; None where none was."""
    if pair.found.model is None:
        return None
    here, there = (pair.a, pair.b) if side == 0 else (pair.b, pair.a)
    xy = np.repeat(here.keypoints.xy[index : index + 1].double().numpy(), len(others), 0)
    ends = xy, there.keypoints.xy[others].double().numpy()
    a, b = ends if side == 0 else ends[::-1]
    kind = str(pair.found.geometry)
    errors = (homography_errors if kind == "homography" else epipolar_errors)(pair.found.model.numpy(), a, b)
    return errors <= THRESHOLD[kind]


def _as_text(rgb: np.ndarray, suffix: str) -> str:
    data = draw_matches.encode(rgb, suffix)
    assert data is not None  # panels are far smaller than what a JPEG can hold
    return base64.b64encode(data).decode()

"""Match two uploaded images, compare with SIFT, and show the patches behind a keypoint.

A `MatchSession` caches images and features of recent requests, so that changing the ratio or clicking a keypoint computes no
descriptors again. Its methods return the JSON of the HTTP API (types in `web.api`).
"""

from __future__ import annotations

import base64
import hashlib
import io
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError, suggest
from patchprint.common.image_codec import decode_gray
from patchprint.common.lru import Lru
from patchprint.features import load
from patchprint.features.draw_matches import encode
from patchprint.features.model import DEFAULT_MODEL, LOWE_RATIO, Model, list_models
from patchprint.matching.image_pair import MatchSettings, answer
from patchprint.matching.matchers import matchers_with_ratio
from patchprint.matching.two_view_geometry import THRESHOLD
from patchprint.networks.engines import AUTO
from patchprint.ops.distances import nearest
from patchprint.ops.geometry import epipolar_errors, homography_errors
from patchprint.ops.sampling import ImagePyramids, cut_patches
from patchprint.storage.match_formats import MatchedImages, to_csv
from patchprint.types import Features, Keypoints, Matches
from patchprint.web.limits import Limits

NEIGHBORS = 10
PATCH_PIXELS = 64
MAX_KEYPOINTS = 20_000  # bounds the memory for features
_IMAGES, _FEATURES = 4, 24  # cache sizes: images of two users, features of comparisons at a few settings


@dataclass(frozen=True, eq=False)
class Upload:
    """An uploaded file. The name has no folder part."""

    name: str
    data: bytes

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two images described by a model, and their matches."""

    model: Model
    a: Features
    b: Features
    matches: Matches
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return what ``patchprint match A B --json`` prints."""
        return answer(self.a, self.b, self.matches, self.seconds)


class MatchSession:
    """Match uploaded images, with a cache.

    Args:
        models: the names allowed in requests, each with the name or weight file for `patchprint.load`.
        limits: limits on the uploaded images.
        device: where networks run: auto, cpu, cuda, mps.
        engine: how networks are computed (`patchprint.load`).
    """

    def __init__(
        self, models: Mapping[str, str], limits: Limits | None = None, device: str = "auto", engine: str = AUTO
    ) -> None:
        self._known, self._limits = dict(models), limits or Limits()
        self._device, self._engine = str(choose_device(device)), engine
        self._models: Lru[Model] = Lru(len(self._known))
        self._gray: Lru[np.ndarray] = Lru(_IMAGES)
        self._features: Lru[Features] = Lru(_FEATURES)

    def match(self, images: Sequence[Upload], settings: MatchSettings) -> dict[str, Any]:
        """Return what ``patchprint match A B --json`` prints."""
        return self._match(images, settings).as_json()

    def compare(self, images: Sequence[Upload], settings: MatchSettings, baseline: str) -> dict[str, Any]:
        """Match with a model and with a baseline, on the same keypoints and with the same settings."""
        settings = self._with_ratio(settings)
        pair = self._match(images, settings)
        other = self._match(images, replace(settings, model=baseline), like=pair)
        verdicts = ["" if each.matches.verdict is None else str(each.matches.verdict) for each in (pair, other)]
        return {
            "result": {**pair.as_json(), "ratio": settings.ratio, "sentence": verdicts[0]},
            "baseline": {**other.as_json(), "ratio": settings.ratio, "sentence": verdicts[1]},
            "size_a": pair.a.image_size,
            "size_b": pair.b.image_size,
            "all_a": _rounded(pair.a.keypoints.xy),
            "all_b": _rounded(pair.b.keypoints.xy),
            "csv": _csv(images, pair),
            "command": command_line(images, settings, self._known),
        }

    def patches(
        self, images: Sequence[Upload], settings: MatchSettings, baseline: str, side: str, keypoint: int
    ) -> dict[str, Any]:
        """Return the patch of a keypoint and its nearest neighbors in the other image, for a model and a baseline."""
        settings = self._with_ratio(settings)
        pair = self._match(images, settings)
        other = self._match(images, replace(settings, model=baseline), like=pair)
        count = len(pair.a if side == "a" else pair.b)
        if not 0 <= keypoint < count:
            raise UserError(f"there is no keypoint {keypoint}; image {side} has {count}, counted from 0")
        views = [self._view(images, settings, each, "ab".index(side), keypoint) for each in (pair, other)]
        return {"side": side, "keypoint": keypoint, "views": views}

    def _with_ratio(self, settings: MatchSettings) -> MatchSettings:
        """Fill in the calibrated ratio of the model if none is given, so that the baseline uses the same one."""
        if settings.ratio is not None or settings.mode not in matchers_with_ratio():
            return settings
        return replace(settings, ratio=self._model(settings.model).ratio or LOWE_RATIO)

    def _match(self, images: Sequence[Upload], settings: MatchSettings, like: _Pair | None = None) -> _Pair:
        """Match two images; with ``like``, reuse the keypoints of that pair instead of detecting the same ones again."""
        started = time.monotonic()
        settings.check()
        if settings.max_keypoints > MAX_KEYPOINTS:
            raise UserError(f"max_keypoints is at most {MAX_KEYPOINTS} here, got {settings.max_keypoints}")
        model = self._model(settings.model)
        for image in images:  # fail on either image before computing anything
            self._limits.check_image(image.data, image.name)
            self._pixels(image, settings)
        known = (None, None) if like is None else (like.a.keypoints, like.b.keypoints)
        a, b = (self._describe(image, settings, model, each) for image, each in zip(images, known, strict=True))
        matches = settings.match(a, b, self._device)
        return _Pair(model, a, b, matches, round(time.monotonic() - started, 3))

    def _model(self, name: str) -> Model:
        if name not in self._known:
            raise UserError(f"there is no model {name!r}; {suggest(name, self._known)}")
        return self._models.get(name, lambda: load(self._known[name], self._device, engine=self._engine))

    def _pixels(self, image: Upload, settings: MatchSettings) -> np.ndarray:
        exif = settings.exif
        return self._gray.get((image.digest, exif), lambda: decode_gray(image.data, image.name, exif))

    def _describe(self, image: Upload, settings: MatchSettings, model: Model, known: Keypoints | None) -> Features:
        # Match settings do not change features, so they are left out of the cache key.
        key = image.digest, astuple(replace(settings, mode="nearest", ratio=None, geometry="none"))
        return self._features.get(key, lambda: settings.extract(self._pixels(image, settings), model, known))

    def _view(
        self, images: Sequence[Upload], settings: MatchSettings, pair: _Pair, side: int, index: int
    ) -> dict[str, Any]:
        """Return the patch of a keypoint as one model sees it, and its nearest neighbors in the other image."""
        sides = (pair.a, pair.b)
        here, there = sides[side], sides[1 - side]
        distance, number = nearest(here.descriptors[index : index + 1], there.descriptors, NEIGHBORS)
        rows = number[0][number[0] >= 0]
        found = pair.matches.indices[pair.matches.indices[:, side] == index][:, 1 - side].tolist()
        agrees = _agreement(pair, side, index, rows)
        patches = self._patches(images[1 - side], settings, pair.model, there.keypoints[rows])
        (own,) = self._patches(images[side], settings, pair.model, here.keypoints[torch.tensor([index])])
        neighbors = [
            {
                "keypoint": row,
                "distance": round(float(distance[0, rank]), 4),
                "patch": patch,
                "is_match": row in found,
                "agrees": None if agrees is None else bool(agrees[rank]),
            }
            for rank, (row, patch) in enumerate(zip(rows.tolist(), patches, strict=True))
        ]
        name, is_binary = pair.model.info.name, pair.model.kind == "binary"
        return {"model": name, "is_binary": is_binary, "patch": own, "neighbors": neighbors}

    def _patches(self, image: Upload, settings: MatchSettings, model: Model, keypoints: Keypoints) -> list[str]:
        """Return the patches of keypoints as base64-encoded PNG files."""
        pyramids = ImagePyramids.build([self._pixels(image, settings)])
        patches = cut_patches(pyramids, 0, keypoints, model.patch_scale, PATCH_PIXELS)
        gray = (patches[:, 0].clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        files = (encode(np.repeat(each[..., None], 3, -1), ".png") or b"" for each in gray)
        return [base64.b64encode(file).decode() for file in files]


def offered_models(weight_files: Sequence[str | Path]) -> tuple[dict[str, str], dict[str, float | None]]:
    """Return the argument for `load` and the calibrated ratio of each model by name; weight files of the user come first."""
    known: dict[str, str] = {}
    ratios: dict[str, float | None] = {}
    for path in map(Path, weight_files):
        if path.stem in known:
            raise UserError(f"two weight files are called {path.stem}; rename one of them")
        known[path.stem], ratios[path.stem] = str(path.resolve()), load(path).ratio
    for info in sorted(list_models(), key=lambda info: info.name != DEFAULT_MODEL):
        known.setdefault(info.name, info.name)
        ratios.setdefault(info.name, info.ratio)
    return known, ratios


def command_line(images: Sequence[Upload], settings: MatchSettings, models: Mapping[str, str]) -> str:
    """Return the ``patchprint match`` command with the same result; names that start with a dash get ``./``."""
    names = [f"./{image.name}" if image.name.startswith("-") else image.name for image in images]
    words = ["patchprint", "match", *names]
    for field in fields(settings):
        value = getattr(settings, field.name)
        flag = "matcher" if field.name == "mode" else field.name.replace("_", "-")
        if value != field.default and isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value != field.default:
            words += [f"--{flag}", Path(models[value]).name if field.name == "model" else str(value)]
    return shlex.join(words)


def _csv(images: Sequence[Upload], pair: _Pair) -> str:
    """Return the contents of the file that ``patchprint match A B --out matches.csv`` writes."""
    first, second = images
    folders = ("a/", "b/") if first.name == second.name and first.digest != second.digest else ("", "")
    names = folders[0] + first.name, folders[1] + second.name
    stream = io.StringIO(newline="")
    to_csv(MatchedImages(dict(zip(names, (pair.a, pair.b), strict=True)), {names: pair.matches}), stream)
    return stream.getvalue()


def _agreement(pair: _Pair, side: int, index: int, others: torch.Tensor) -> np.ndarray | None:
    """Return whether keypoints of the other image agree with the estimated geometry, (K,) bool; None if there is none."""
    if pair.matches.model is None:
        return None
    xy = [each.keypoints.xy.double().numpy() for each in (pair.a, pair.b)]
    ends = [xy[0][others], xy[1][others]]
    ends[side] = np.repeat(xy[side][index : index + 1], len(others), 0)
    kind = str(pair.matches.geometry)
    errors = homography_errors if kind == "homography" else epipolar_errors
    return errors(pair.matches.model.numpy(), *ends) <= THRESHOLD[kind]


def _rounded(xy: torch.Tensor) -> list[list[float]]:
    return [[round(x, 2), round(y, 2)] for x, y in xy.tolist()]

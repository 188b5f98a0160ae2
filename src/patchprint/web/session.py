"""Match two uploaded images, compare with SIFT, and show the patches behind a keypoint.

A `MatchSession` caches images and features of recent requests, so that changing the ratio or clicking a keypoint computes no
descriptors again. Its methods return the JSON of the HTTP API (types in `web.api`).
"""

import base64
import hashlib
import io
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError, suggest
from patchprint.common.lru import Lru
from patchprint.common.types import Features, Keypoints, Matches, Verdict
from patchprint.features import extract, load
from patchprint.features.extract import DescribeSettings
from patchprint.features.model import DEFAULT_MODEL, LOWE_RATIO, Model, list_models
from patchprint.interop.images import decode_gray, encode_image
from patchprint.matching.matchers import MatchSettings, match_and_verify, matchers_with_ratio
from patchprint.matching.two_view_geometry import THRESHOLD
from patchprint.networks.engines import AUTO
from patchprint.ops.distances import nearest
from patchprint.ops.geometry import epipolar_errors, homography_errors
from patchprint.ops.sampling import ImagePyramids, cut_patches
from patchprint.storage.match_formats import MatchedImages, as_json, to_csv
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
class Question:
    """Two images, and how they are described and matched; device and engine are those of the session."""

    images: Sequence[Upload]
    describe: DescribeSettings
    matching: MatchSettings

    def command_line(self, models: Mapping[str, str]) -> str:
        """Return the ``patchprint match`` command with the same result; names that start with a dash get ``./``."""
        words = [f"./{image.name}" if image.name.startswith("-") else image.name for image in self.images]
        for settings in (self.describe, self.matching):
            for field in fields(settings):
                value, flag = getattr(settings, field.name), field.name.replace("_", "-")
                if value != field.default and isinstance(value, bool):
                    words.append(f"--{flag}" if value else f"--no-{flag}")
                elif value != field.default:
                    words += [f"--{flag}", Path(models[value]).name if flag == "model" else str(value)]
        return shlex.join(["patchprint", "match", *words])


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two images described by a model, and their matches."""

    model: Model
    a: Features
    b: Features
    matches: Matches
    seconds: float

    def as_json(self) -> dict[str, Any]:
        found = as_json(self.a.keypoints, self.b.keypoints, self.matches)
        return {"model": self.a.model.name, **found, "seconds": self.seconds}


class MatchSession:
    """Match uploaded images, with a cache; ``models`` has the names allowed in requests, with the argument for `load`."""

    def __init__(
        self, models: Mapping[str, str], limits: Limits | None = None, device: str = "auto", engine: str = AUTO
    ) -> None:
        self._known, self._limits = dict(models), limits or Limits()
        self._device, self._engine = str(choose_device(device)), engine
        self._models: Lru[Model] = Lru(len(self._known))
        self._gray: Lru[np.ndarray] = Lru(_IMAGES)
        self._features: Lru[Features] = Lru(_FEATURES)

    def match(self, question: Question) -> dict[str, Any]:
        """Return what ``patchprint match A B --json`` prints."""
        return self._match(question).as_json()

    def compare(self, question: Question, baseline: str) -> dict[str, Any]:
        """Match with a model and with a baseline, on the same keypoints and with the same settings."""
        question, pair, other = self._match_both(question, baseline)
        result, expected = (
            {**each.as_json(), "ratio": question.matching.ratio, "sentence": _sentence(question, each.matches.verdict)}
            for each in (pair, other)
        )
        answer: dict[str, Any] = {"result": result, "baseline": expected, "csv": _csv(question.images, pair)}
        for side, features in (("a", pair.a), ("b", pair.b)):
            answer[f"size_{side}"] = features.image_size
            answer[f"all_{side}"] = features.keypoints.xy.double().round(decimals=2).tolist()
        return {**answer, "command": question.command_line(self._known)}

    def patches(self, question: Question, baseline: str, side: str, keypoint: int) -> dict[str, Any]:
        """Return the patch of a keypoint and its nearest neighbors in the other image, for a model and a baseline."""
        question, *pairs = self._match_both(question, baseline)
        count = len(pairs[0].a if side == "a" else pairs[0].b)
        if not 0 <= keypoint < count:
            raise UserError(f"there is no keypoint {keypoint}; image {side} has {count}, counted from 0")
        grays = [self._pixels(image, question.describe.exif) for image in question.images]
        views = [_view(grays, pair, "ab".index(side), keypoint) for pair in pairs]
        return {"side": side, "keypoint": keypoint, "views": views}

    def _match_both(self, question: Question, baseline: str) -> tuple[Question, _Pair, _Pair]:
        """Match with a model, and with a baseline at the same ratio: by default the calibrated one of the model."""
        describe, matching = question.describe, question.matching
        if matching.ratio is None and matching.matcher in matchers_with_ratio():
            matching = replace(matching, ratio=self._model(describe.model).ratio or LOWE_RATIO)
        question = replace(question, matching=matching)
        pair = self._match(question)
        return question, pair, self._match(replace(question, describe=replace(describe, model=baseline)), like=pair)

    def _match(self, question: Question, like: _Pair | None = None) -> _Pair:
        """Match two images; with ``like``, reuse the keypoints of that pair instead of detecting the same ones again."""
        started, settings = time.monotonic(), question.describe
        if settings.max_keypoints is None or settings.max_keypoints > MAX_KEYPOINTS:
            raise UserError(f"max_keypoints is at most {MAX_KEYPOINTS} here, got {settings.max_keypoints}")
        model = self._model(settings.model)
        for image in question.images:  # fail on either image before computing anything
            self._limits.check_image(image.data, image.name)
            self._pixels(image, settings.exif)
        known = (None, None) if like is None else (like.a.keypoints, like.b.keypoints)
        a, b = (self._describe(*each, settings, model) for each in zip(question.images, known, strict=True))
        images = [self._pixels(image, settings.exif) for image in question.images]
        matches = match_and_verify(a, b, question.matching, images=images, device=self._device)
        return _Pair(model, a, b, matches, round(time.monotonic() - started, 3))

    def _model(self, name: str) -> Model:
        if name not in self._known:
            raise UserError(f"there is no model {name!r}; {suggest(name, self._known)}")
        return self._models.get(name, lambda: load(self._known[name], self._device, engine=self._engine))

    def _pixels(self, image: Upload, exif: bool) -> np.ndarray:
        return self._gray.get((image.digest, exif), lambda: decode_gray(image.data, image.name, exif))

    def _describe(self, image: Upload, known: Keypoints | None, settings: DescribeSettings, model: Model) -> Features:
        pixels = self._pixels(image, settings.exif)
        return self._features.get(
            (image.digest, settings), lambda: extract(pixels, model, settings=settings, keypoints=known)
        )


def _view(images: Sequence[np.ndarray], pair: _Pair, side: int, index: int) -> dict[str, Any]:
    """Return the patch of a keypoint as one model sees it, and its nearest neighbors in the other image."""
    here, there = (pair.a, pair.b) if side == 0 else (pair.b, pair.a)
    distance, number = nearest(here.descriptors[index : index + 1], there.descriptors, NEIGHBORS)
    rows = number[0][number[0] >= 0]
    found = pair.matches.indices[pair.matches.indices[:, side] == index][:, 1 - side].tolist()
    agrees = _agreement(pair, side, index, rows)
    patches = _patches(images[1 - side], pair.model, there.keypoints[rows])
    (own,) = _patches(images[side], pair.model, here.keypoints[torch.tensor([index])])
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


def _patches(image: np.ndarray, model: Model, keypoints: Keypoints) -> list[str]:
    """Return the patches of keypoints as base64-encoded PNG files."""
    patches = cut_patches(ImagePyramids.build([image]), 0, keypoints, model.patch_scale, PATCH_PIXELS)
    gray = (patches[:, 0].clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    return [base64.b64encode(encode_image(each)).decode() for each in gray]


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


def _sentence(question: Question, verdict: Verdict | None) -> str:
    return "" if verdict is None else verdict.sentence(f"--matcher {question.matching.matcher}")

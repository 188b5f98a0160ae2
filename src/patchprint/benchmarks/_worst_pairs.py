"""Hardest pairs of a list, stored as small images in a result."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch

from patchprint.common.errors import parsing
from patchprint.data import PatchSource
from patchprint.data.patch_pairs import PairList
from patchprint.data.preview import stretch_contrast
from patchprint.interop.images import decode_gray, encode_image

KINDS = ("missed", "confused")
_COUNT, _SIDE = 6, 32


def hardest_pairs(source: PatchSource, pairs: PairList, distance: np.ndarray) -> dict[str, np.ndarray]:
    """Matching pairs that lie farthest apart (missed), and others that lie nearest (confused), hardest first.

    Shape:
        distance (L,) -> missed, confused (C, 2, S, S) uint8; missed_distance, confused_distance (C,).
    """
    found: dict[str, np.ndarray] = {}
    for kind, chosen, sign in zip(KINDS, (pairs.is_match, ~pairs.is_match), (-1, 1), strict=True):
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(sign * distance[rows], kind="stable")[:_COUNT]]
        place = pairs.index.cpu()[torch.from_numpy(rows)].flatten()
        points, views = pairs.points.cpu()[place].to(source.device), pairs.views.cpu()[place].to(source.device)
        patches = stretch_contrast(source.sample(points, views[:, None], _SIDE)[:, 0, 0])
        shown = (patches * 255).round().to(torch.uint8).cpu().numpy()
        found |= {kind: shown.reshape(-1, 2, *shown.shape[1:]), f"{kind}_distance": distance[rows]}
    return found


def to_json(arrays: dict[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """What `hardest_pairs` found as distances and an image: pairs side by side, the patches of each above each other."""
    found = {}
    for kind in KINDS:
        count, _, height, width = arrays[kind].shape
        strip = arrays[kind].transpose(1, 2, 0, 3).reshape(2 * height, count * width)
        found[kind] = {
            "distance": arrays[f"{kind}_distance"].round(4).tolist(),
            "png": base64.b64encode(encode_image(strip)).decode(),
        }
    return found


def from_json(entry: Any, name: str) -> tuple[np.ndarray, list[float]]:
    """Patches and distances of one kind of pairs of a result that is called ``name``.

    Shape:
        -> (C, 2, S, S) uint8, and C numbers.
    """
    with parsing(name, "a result with pairs of patches"):
        distance = [float(value) for value in entry["distance"]]
        strip = decode_gray(base64.b64decode(entry["png"], validate=True), name)
        return strip.reshape(2, len(strip) // 2, len(distance), -1).transpose(2, 0, 1, 3), distance

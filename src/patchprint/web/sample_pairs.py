"""Pairs of pictures to try the page with, out of scikit-image: two views, one picture warped, two different things."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from patchprint.common.optional import require
from patchprint.data.builders.bundled_images import image
from patchprint.data.builders.homographies import render_views
from patchprint.features.draw_matches import encode

NAMES = ("Two views", "Turned and relit", "Different things")


def write_examples(folder: Path) -> Mapping[str, tuple[str, str]]:
    """The paths of each pair, by its name; the pictures are written into a folder that is there."""
    data = require("skimage.data", extra="web")
    left, right, _ = data.stereo_motorcycle()
    coffee = image("coffee")
    _, warped = render_views(coffee, count=1, seed=7, strength=1.2)
    pictures = {
        "motorcycle-left.jpg": left,
        "motorcycle-right.jpg": right,
        "coffee.jpg": _gray(coffee),
        "coffee-warped.jpg": _gray(warped.image),
        "rocket.jpg": _gray(image("rocket")),
    }
    for name, picture in pictures.items():
        contents = encode(picture, ".jpg")
        assert contents is not None
        (folder / name).write_bytes(contents)
    paths = {name: str(folder / name) for name in pictures}
    return {
        NAMES[0]: (paths["motorcycle-left.jpg"], paths["motorcycle-right.jpg"]),
        NAMES[1]: (paths["coffee.jpg"], paths["coffee-warped.jpg"]),
        NAMES[2]: (paths["coffee.jpg"], paths["rocket.jpg"]),
    }


def _gray(picture: np.ndarray) -> np.ndarray:
    """(H, W) as (H, W, 3)."""
    return np.repeat(picture[..., None], 3, -1)

"""Pairs of images to try the page with, from scikit-image: two views, one image warped, two different things."""

from __future__ import annotations

import functools

import numpy as np

from patchprint.common.optional import require
from patchprint.data.builders.bundled_images import image
from patchprint.data.builders.homographies import render_views
from patchprint.features.draw_matches import encode

SAMPLES = {
    "Two views": ("motorcycle-left.jpg", "motorcycle-right.jpg"),
    "Turned and relit": ("coffee.jpg", "coffee-warped.jpg"),
    "Different things": ("coffee.jpg", "rocket.jpg"),
}


@functools.cache
def sample_files() -> dict[str, bytes]:
    """Return the JPEG files in SAMPLES by name."""
    left, right, _ = require("skimage.data", extra="web").stereo_motorcycle()
    coffee = image("coffee")
    _, warped = render_views(coffee, count=1, seed=7, strength=1.2)
    images = {"coffee.jpg": coffee, "coffee-warped.jpg": warped.image, "rocket.jpg": image("rocket")}
    images = {name: np.repeat(gray[..., None], 3, -1) for name, gray in images.items()}
    images |= {"motorcycle-left.jpg": left, "motorcycle-right.jpg": right}
    return {name: encode(pixels, ".jpg") or b"" for name, pixels in images.items()}

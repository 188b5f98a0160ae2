"""Models: networks and baselines behind one door."""

from __future__ import annotations

import cv2

from patchprint.detectors import detect
from patchprint.features import load
from support.known_images import texture


def test_sift_of_a_patch_resembles_sift_of_the_picture() -> None:
    from patchprint.patches.sampler import ImagePyramids, cut_patches

    image = cv2.GaussianBlur(texture(), (0, 0), 1)
    loaded = load("sift")
    found = detect(image, "dog", 200)
    found = found[(found.scale > 2.5) & ((found.xy > 50) & (found.xy < 190)).all(1)]
    patches = cut_patches(ImagePyramids.build([image]), 0, found, loaded.patch_scale, 32)
    cosine = (loaded.describe_patches(patches) * loaded.describe_keypoints(image, found)).sum(1)
    assert float(cosine.median()) > 0.9

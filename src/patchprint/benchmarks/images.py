"""Keypoints and prints of the pictures of a benchmark, each computed once and kept."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import torch

from patchprint.benchmarks.cache import Arrays
from patchprint.benchmarks.setup import Setup
from patchprint.interop import kornia, opencv
from patchprint.types import Features, Keypoints

Detector = Literal["dog", "harris-affine"]


def features_of(
    setup: Setup, image: np.ndarray, name: str, detector: Detector, keypoints: int | None, upright: bool = False
) -> Features:
    """Keypoints with prints of one picture, uint8 (H, W); ``name`` must be unique in the data set."""
    key = {"picture": name, "detector": detector, "keypoints": keypoints}
    found = from_arrays(setup.inputs(key, lambda: to_arrays(detect(image, detector, keypoints))))
    if upright:
        found = without_second_angles(found)
    return described(setup, image, found, key, upright)


def described(
    setup: Setup, image: np.ndarray, keypoints: Keypoints, key: dict[str, Any], upright: bool = False
) -> Features:
    """Prints at given keypoints; ``key`` says which they are."""

    def describe() -> Arrays:
        return {"descriptors": setup.describer.describe_keypoints(image, keypoints, upright=upright).numpy()}

    descriptors = setup.predictions({**key, "upright": upright}, describe)["descriptors"]
    size = (image.shape[1], image.shape[0])
    return Features(keypoints, torch.from_numpy(descriptors), size, None, setup.describer.id)


def detect(image: np.ndarray, detector: Detector, keypoints: int | None) -> Keypoints:
    """Differences of Gaussians of OpenCV's SIFT, or Harris corners with elliptic shape through kornia."""
    if detector == "dog":
        return opencv.detect_sift(image, max_keypoints=keypoints)
    return kornia.detect_harris(image, max_keypoints=keypoints or 2000, affine=True)


def without_second_angles(keypoints: Keypoints) -> Keypoints:
    """One keypoint for each place and scale, the first: without angles, SIFT's second orientations are mere copies."""
    places = torch.cat([keypoints.xy, keypoints.scale[:, None]], dim=1).cpu().numpy()
    _, first = np.unique(places, axis=0, return_index=True)
    return keypoints[np.sort(first)]


def to_arrays(keypoints: Keypoints) -> Arrays:
    values = {field.name: getattr(keypoints, field.name) for field in dataclasses.fields(keypoints)}
    return {name: value.cpu().numpy() for name, value in values.items() if value is not None}


def from_arrays(arrays: Arrays) -> Keypoints:
    return Keypoints(**{name: torch.from_numpy(value) for name, value in arrays.items()})

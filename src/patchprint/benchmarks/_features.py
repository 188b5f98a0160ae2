"""Cached keypoints and descriptors of the images of a benchmark."""

from __future__ import annotations

import numpy as np
import torch

from patchprint.benchmarks._benchmark import Run
from patchprint.detectors import detect
from patchprint.interop.sequences import ImageSequence
from patchprint.types import Features, Keypoints


def features_of(
    run: Run, image: np.ndarray, name: str, detector: str, keypoints: int | None, spread: bool, upright: bool
) -> Features:
    """Extract features of one image, uint8 (H, W), or take them from the cache; ``name`` must be unique in the data set."""
    what = f"{name} {'upright' if upright else 'oriented'}"
    found = run.inputs(
        what, lambda: detect(image, detector, max_keypoints=keypoints, spread=spread, upright=upright).to_arrays()
    )
    return described(run, image, Keypoints.from_arrays(found), what)


def described(run: Run, image: np.ndarray, keypoints: Keypoints, what: str) -> Features:
    """Describe given keypoints, or take descriptors from the cache; ``what`` names them."""
    arrays = run.predictions(
        what, lambda: {"descriptors": run.patch_model.describe_keypoints(image, keypoints).numpy()}
    )
    size = (image.shape[1], image.shape[0])
    return Features(keypoints, torch.from_numpy(arrays["descriptors"]), size, None, run.model.id, run.model.ratio)


def sequence_features(
    run: Run,
    sequence: ImageSequence,
    detector: str,
    keypoints: int,
    spread: bool,
    upright: bool,
    all_but_first: bool = False,
) -> dict[int, Features] | None:
    """Features of the images of a sequence by number; None where bad images left out leave no pair with the first image.

    ``all_but_first``: the limit on ``keypoints`` holds for the first image alone.
    """
    found = {}
    for number, image in run.readable(dict(sequence.paths), sequence.read):
        limit = None if all_but_first and number > 1 else keypoints
        name = f"{sequence.name}/{number}"
        found[number] = features_of(run, image, name, detector, limit, spread, upright)
    return found if 1 in found and len(found) > 1 else None

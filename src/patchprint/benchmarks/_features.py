"""Cached keypoints and descriptors of the images of a benchmark."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from patchprint.benchmarks._benchmark import Run
from patchprint.common.types import Features, Keypoints
from patchprint.detectors import detect
from patchprint.interop.sequences import find_sequences


@dataclass(frozen=True)
class KeypointSettings:
    """How keypoints are found, the same for all models."""

    # One of the detectors of patchprint describe; dog-published has the threshold that published tables were made with.
    detector: str = "dog-published"
    # Strongest keypoints kept in each image.
    keypoints: int = 2000
    # Give every part of an image its share of the keypoints, instead of keeping the strongest.
    spread: bool = False


@dataclass(frozen=True)
class SequenceSettings(KeypointSettings):
    """The same, in image sequences."""

    # Ignore the angles of keypoints.
    upright: bool = False
    # Only these sequences; all of them if not given.
    sequences: tuple[str, ...] = ()


def features_of(
    run: Run,
    image: np.ndarray,
    name: str,
    settings: KeypointSettings,
    *,
    upright: bool = False,
    has_limit: bool = True,
) -> Features:
    """Extract features of one image, uint8 (H, W), or take them from the cache; ``name`` must be unique in the data set."""
    what = f"{name} {'upright' if upright else 'oriented'}"
    limit = settings.keypoints if has_limit else None
    found = run.inputs(
        what,
        lambda: detect(
            image, settings.detector, max_keypoints=limit, spread=settings.spread, upright=upright
        ).to_arrays(),
    )
    return described(run, image, Keypoints.from_arrays(found), what)


def described(run: Run, image: np.ndarray, keypoints: Keypoints, what: str) -> Features:
    """Describe given keypoints, or take descriptors from the cache; ``what`` names them."""
    arrays = run.predictions(
        what, lambda: {"descriptors": run.patch_model.describe_keypoints(image, keypoints).numpy()}
    )
    size = (image.shape[1], image.shape[0])
    return Features(keypoints, torch.from_numpy(arrays["descriptors"]), size, None, run.model.id, run.model.ratio)


def select(features: Features, rows: np.ndarray) -> Features:
    """Return some of the keypoints with their descriptors."""
    descriptors = features.descriptors[torch.from_numpy(rows)]
    return dataclasses.replace(features, keypoints=features.keypoints[rows], descriptors=descriptors)


def sequence_pairs(
    run: Run, settings: SequenceSettings, all_of_second: bool = False
) -> Iterator[tuple[str, int, Features, Features, np.ndarray]]:
    """Yield the name of a sequence, the number of an image, the features of the first and of this image, and the homography.

    ``all_of_second``: the limit on keypoints holds for the first image of a sequence alone.
    """
    for sequence in tqdm(find_sequences(run.folder, settings.sequences), desc="sequences", disable=None):
        found = {
            number: features_of(
                run,
                image,
                f"{sequence.name}/{number}",
                settings,
                upright=settings.upright,
                has_limit=number == 1 or not all_of_second,
            )
            for number, image in run.readable(sequence.paths)
        }
        for number, homography in sequence.homographies.items() if 1 in found else ():
            if number in found:
                yield sequence.name, number, found[1], found[number], homography

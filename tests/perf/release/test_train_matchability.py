"""Examples for the learned score of keypoints."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from skimage import data

from patchprint.detectors.dog import find_dog
from patchprint.types import Keypoints
from perf.release import train_matchability


def test_matched_are_those_that_are_found_again_and_look_alike() -> None:
    image = data.camera()[::2, ::2].copy()

    def find(pixels: np.ndarray) -> Keypoints:
        found = find_dog(pixels)
        if pixels is image:
            # Three more that no copy can have found: where the sky is flat, a detector finds nothing.
            flat = dataclasses.replace(found[:3], xy=torch.tensor([[60.0, 20.0], [70.0, 24.0], [80.0, 20.0]]))
            return Keypoints.concatenate([flat, found])
        return found

    examples = train_matchability.examples_of(image, 1, find)
    assert examples["patches"].shape[1:] == (16, 16)
    assert examples["target"][:3].tolist() == [0, 0, 0]
    assert set(np.round(6 * examples["target"]).astype(int)) <= {0, 2, 3, 4, 6}  # of two or of three copies
    assert 0.2 < examples["target"].mean() < 0.9


def test_it_learns_which_of_two_kinds_is_matched() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 600)
    patches = rng.integers(100, 130, (600, 16, 16))
    patches[kind == 1, 4:12, 4:12] += 80
    examples = {
        "patches": patches.astype(np.uint8),
        "scale": np.full(600, 2, np.float32),
        "response": np.full(600, 0.02, np.float32),
        "target": kind.astype(np.float32),
    }
    network = train_matchability.train(examples, seed=0, steps=25)
    assert train_matchability.area(network, examples) > 0.95

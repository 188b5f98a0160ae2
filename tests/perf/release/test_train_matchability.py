"""Examples for the learned score of keypoints."""

from __future__ import annotations

import numpy as np
import torch

from patchprint.types import Keypoints
from perf.release import train_matchability


def test_the_same_keypoint_lies_near_with_like_scale_and_angle() -> None:
    one = Keypoints(torch.tensor([[10.0, 10.0]]), torch.tensor([2.0]), torch.tensor([3.1]))
    others = Keypoints(
        torch.tensor([[11.0, 10.0], [14.0, 10.0], [10.0, 10.0], [10.0, 10.0]]),
        torch.tensor([2.2, 2.0, 4.0, 2.0]),
        torch.tensor([-3.1, 3.1, 3.1, 1.0]),
    )
    first, second = train_matchability.same_keypoints(one, others, 2.0)
    assert (first.tolist(), second.tolist()) == ([0], [0])


def test_it_learns_which_of_two_kinds_is_found_again() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 600)
    patches = rng.integers(100, 130, (600, 16, 16))
    patches[kind == 1, 4:12, 4:12] += 80
    examples = {
        "patches": patches.astype(np.uint8),
        "scale": np.full(600, 2, np.float32),
        "response": np.full(600, 0.02, np.float32),
        "target": kind.astype(np.float32),
        "weight": np.ones(600, np.float32),
    }
    network = train_matchability.train([examples], seed=0, steps=25)
    assert train_matchability.area(network, examples, 0) > 0.95

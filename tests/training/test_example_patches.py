"""What a person looks at beside numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from patchprint import networks
from patchprint.ops.distances import pair_distances
from patchprint.training import example_patches
from patchprint.training.held_out import HeldOutPoints
from support import training_data


def test_learned_patches_are_those_of_points_with_several_views(tmp_path: Path) -> None:
    source = training_data.images(points=40)
    found = example_patches.learned_patches(source, 32)
    assert found["patches"].shape == (example_patches.POINTS, example_patches.VIEWS, 32, 32, 1)
    assert found["patches"].dtype == np.uint8 and found["valid"].any(1).all()
    assert example_patches.learned_patches(source.select(torch.zeros(0, dtype=torch.int64)), 32) == {}
    whole = example_patches.learned_patches(training_data.whole_images(tmp_path), 224)
    assert whole["patches"].shape[2:] == (64, 64, 3), "images are shown small"


def test_hardest_pairs_come_first_and_are_what_they_say() -> None:
    judge = HeldOutPoints(training_data.images(points=40), 30, seed=0)
    network = networks.create("hardnet", width=4, dim=16).in_evaluation()
    found = example_patches.hardest_pairs(judge, network, count=5)
    first, second = judge.describe(network)
    own = pair_distances(first, second)
    assert found["missed_distance"].tolist() == sorted(own, reverse=True)[:5]
    others = torch.cdist(first.double(), second.double(), compute_mode="donot_use_mm_for_euclid_dist")
    others.fill_diagonal_(torch.inf)
    nearest = others.amin(1).sort().values[:5]
    assert np.allclose(found["confused_distance"], nearest.numpy(), atol=1e-6)
    assert found["missed"].shape == found["confused"].shape == (5, 2, 32, 32)
    assert found["missed"].max() == 255, "contrast is stretched"


def test_two_points_are_enough() -> None:
    judge = HeldOutPoints(training_data.images(points=2), 2, seed=0)
    network = networks.create("hardnet", width=4, dim=16).in_evaluation()
    assert len(example_patches.hardest_pairs(judge, network)["confused"]) == 2

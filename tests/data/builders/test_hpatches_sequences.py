"""HPatches made from image sequences: the same points in every view, with the published noise."""

import numpy as np
import pytest
import torch

from patchprint.common.types import Keypoints
from patchprint.data import open_source
from patchprint.data.builders import hpatches_sequences
from support.scenes import write_sequence


@pytest.mark.parametrize("layout", ["hpatches", "oxford"])
def test_made_sequences_show_the_same_points(tmp_path, layout):
    write_sequence(tmp_path / "s" / "v_wall", images=6, side=300, layout=layout)
    write_sequence(tmp_path / "s" / "v_wall2", images=6, side=300, layout=layout)
    hpatches_sequences.build(tmp_path / "s", tmp_path / "out", max_keypoints=60)
    store = open_source(tmp_path / "out")
    assert (store.num_views == 16).all() and store.scene_names == ["v_wall", "v_wall2"]
    patches = store.sample(torch.arange(store.num_points), torch.arange(16).expand(store.num_points, 16), 65)[:, :, 0]
    centered = (patches - patches.mean((-2, -1), keepdim=True)).flatten(2)
    unit = centered / centered.norm(dim=2, keepdim=True)
    likeness = (unit[:, :1] * unit).sum(2).mean(0)
    easy, hard, tough = (likeness[1 + 5 * level : 6 + 5 * level].mean() for level in range(3))
    assert easy > 0.7 and easy > hard > tough, (easy, hard, tough)
    hpatches_sequences.build(tmp_path / "s", tmp_path / "again", max_keypoints=60)
    assert np.array_equal(open_source(tmp_path / "again").patches, store.patches), (
        "the same seed gives the same patches"
    )


def test_jitter_has_the_published_overlaps():
    grid = np.stack(np.meshgrid(*[np.linspace(-2.5, 2.5, 151)] * 2), -1).reshape(-1, 2)
    inside = (grid**2).sum(1) <= 1
    for strength, wanted in zip(hpatches_sequences.STRENGTHS.values(), (0.85, 0.72, 0.60), strict=True):
        overlaps = []
        for affine in hpatches_sequences.random_affine(np.random.default_rng(0), 300, strength).double().numpy():
            back = (grid - affine[:, 2]) @ np.linalg.inv(affine[:, :2]).T
            moved = (back**2).sum(1) <= 1
            overlaps.append((moved & inside).sum() / (moved | inside).sum())
        assert abs(np.median(overlaps) - wanted) < 0.02


def test_circle_overlap_and_clusters():
    overlap = hpatches_sequences.circle_overlap(
        torch.tensor([0.0, 2.0, 0.0, 1.0]), torch.tensor([1.0, 1.0, 2.0, 1.0]), torch.tensor([1.0, 1.0, 1.0, 1.0])
    )
    assert torch.allclose(overlap, torch.tensor([1.0, 0.0, 0.25, 0.2430]), atol=1e-3)
    xy = torch.tensor([[50.0, 50], [50.5, 50], [150, 50]])
    kept = hpatches_sequences.one_of_every_cluster(Keypoints(xy, torch.full((3,), 2.0), torch.zeros(3)), seed=0)
    assert len(kept) == 2 and kept.xy[-1, 0] == 150

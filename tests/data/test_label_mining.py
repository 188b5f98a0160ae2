"""Mined labels: which patches of one sequence may be called different."""

import cv2
import numpy as np
import torch

from patchprint.data import open_source
from patchprint.data.builders import hpatches_patches
from patchprint.data.group_batches import SequencePairBatcher


def test_label_mining_separates_what_looks_different(tmp_path):
    """Half of each sequence is vertical stripes, half horizontal: patches of one kind are never called distractors."""
    stripes = np.tile(np.where(np.arange(65) % 16 < 8, 200, 50).astype(np.uint8), (65, 1))
    rng = np.random.default_rng(0)
    for name in ("i_a", "i_b"):
        (tmp_path / "h" / name).mkdir(parents=True)
        for strip in hpatches_patches.STRIPS:
            patches = [
                np.clip((stripes if k < 8 else stripes.T) + rng.normal(0, 3, (65, 65)), 0, 255) for k in range(16)
            ]
            cv2.imwrite(str(tmp_path / "h" / name / f"{strip}.png"), np.concatenate(patches).astype(np.uint8))
    hpatches_patches.build(tmp_path / "h", tmp_path / "out", mine_labels=True)
    store = open_source(tmp_path / "out")
    vertical = (torch.arange(len(store.patches)) % 16) < 8
    rows = torch.arange(256)
    far = store.mined.are_distractors(torch.zeros(256, dtype=torch.int64), rows)
    same = vertical[:256, None] == vertical[None, :256]
    assert far[~same].float().mean() > 0.99
    assert far[same].float().mean() < 0.75, "the nearest fifth of the cluster pairs is of one kind"
    batch = SequencePairBatcher(store, 128).batch(torch.tensor(0))
    assert len(batch.points.unique()) == 8 and batch.ignore.shape == (128, 128) and batch.valid.all()
    assert not batch.ignore[:64, 64:].any(), "other sequences are always negatives"

"""Vectors of whole photos are made once, kept with the features, and made again where they are those of other photos."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint.matching.pair_selection import choose_pairs
from patchprint.ops import pooling
from patchprint.storage import image_vectors
from patchprint.storage.feature_files import VECTORS, FeatureFolder


@pytest.fixture
def folder(described: Path, tmp_path: Path) -> Path:
    shutil.copytree(described, tmp_path / "features")
    (tmp_path / "features" / VECTORS).unlink(missing_ok=True)  # of another test
    return tmp_path / "features"


def test_vectors_are_kept_with_the_features(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = FeatureFolder(folder)
    assert (
        image_vectors.load_or_compute(features, keep=False).names == list(features) and not (folder / VECTORS).exists()
    )
    made = image_vectors.load_or_compute(features)
    pairs = choose_pairs(features, "retrieval", 1)
    monkeypatch.setattr(pooling, "learn_pooling", None)
    kept = image_vectors.load_or_compute(FeatureFolder(folder))
    assert torch.equal(kept.vectors, made.vectors) and kept.rows(["view 2.png", "view 0.png"]) == [2, 0]
    assert choose_pairs(features, "retrieval", 1) == pairs
    again = torch.stack([kept.pooling(item.descriptors) for item in features.values()])
    assert torch.allclose(again, made.vectors), "what made them makes those of further photos"


@pytest.mark.parametrize("other", ["names", "seed", "damaged"])
def test_other_vectors_are_replaced(other: str, folder: Path) -> None:
    made = image_vectors.load_or_compute(FeatureFolder(folder))
    if other == "damaged":
        (folder / VECTORS).write_bytes(b"no vectors")
    else:
        values = dict(np.load(folder / VECTORS))
        values[other] = values["names"][::-1] if other == "names" else np.array(7)
        np.savez(folder / VECTORS, vectors=-values.pop("vectors"), **values)
    assert torch.equal(image_vectors.load_or_compute(FeatureFolder(folder)).vectors, made.vectors)

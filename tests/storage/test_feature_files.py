"""Features on disk, one file for each photo."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from patchprint.storage import feature_files


def test_features_round_trip(described: Path, views: Path, tmp_path: Path) -> None:
    features = feature_files.FeatureFolder(described)
    assert list(features) == ["view 0.png", "view 1.png", "view 2.png"]
    item = features["view 0.png"]
    assert item.descriptors.shape == (400, 128)
    assert item.image_path == views / "view 0.png"
    assert item.model.name == "rootsift"
    feature_files.save(item, tmp_path / "copy.npz")
    copy = feature_files.load(tmp_path / "copy.npz")
    assert torch.equal(copy.descriptors, item.descriptors)
    assert torch.equal(copy.keypoints.frames(), item.keypoints.frames())
    (tmp_path / "bad.npz").write_text("no")
    with pytest.raises(ValueError, match="not a features file"):
        feature_files.load(tmp_path / "bad.npz")

"""COLMAP databases of described images."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from patchprint.interop import colmap_models
from patchprint.storage import colmap_output
from patchprint.storage.feature_files import FeatureFolder


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("photos_folder", "/nowhere", "is not there any more"), ("exif", True, "describe them without --exif")],
)
def test_colmap_needs_the_photos_as_they_were(
    name: str, value: object, message: str, described: Path, tmp_path: Path
) -> None:
    features = FeatureFolder(described)
    plan = json.loads(json.dumps(features.manifest))
    (plan if name in plan else plan["settings"])[name] = value
    features.manifest = plan
    with pytest.raises(ValueError, match=message):
        colmap_output.write_database(tmp_path / "f.db", features)
    assert list(tmp_path.iterdir()) == []


def test_features_from_elsewhere_need_the_folder_of_the_images(described: Path, views: Path, tmp_path: Path) -> None:
    features = dict(FeatureFolder(described))
    bare = {name: dataclasses.replace(item, image_path=None) for name, item in features.items()}
    with pytest.raises(ValueError, match="do not say where their images are"):
        colmap_output.check_images(bare)
    colmap_output.write_database(tmp_path / "given.db", bare, images=views)
    colmap_output.write_database(tmp_path / "known.db", features)
    for name in ("given.db", "known.db"):
        assert [image.name for image in colmap_models.read_database(tmp_path / name)] == list(features)
    with colmap_models.pycolmap.Database.open(tmp_path / "known.db") as store:
        assert store.num_matched_image_pairs() == 0

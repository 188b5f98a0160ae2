"""COLMAP databases of described images."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch.nn.functional as F

from patchprint.features.compress import compress
from patchprint.interop import colmap_models
from patchprint.ops.distances import unpack_bits
from patchprint.storage import colmap_output, feature_formats
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


def test_the_exported_matcher_reads_scale_and_angle_behind_the_descriptors(described: Path, tmp_path: Path) -> None:
    features = FeatureFolder(described)
    feature_formats.write_features(features, tmp_path / "f.db", "colmap-graph")
    with colmap_models.pycolmap.Database.open(tmp_path / "f.db") as store:
        for image in store.read_all_images():
            item, rows = features[image.name], store.read_descriptors(image.image_id).to_float().data
            frames = np.column_stack([item.keypoints.scale, item.keypoints.angle])
            assert np.array_equal(rows, np.column_stack([item.descriptors.numpy(), frames]))


@pytest.mark.parametrize("how", [None, "fp16", "int8", "bits"])
def test_descriptors_are_float_rows(how: str | None, described: Path, views: Path, tmp_path: Path) -> None:
    features = {}
    for name, item in FeatureFolder(described).items():
        centered = F.normalize(item.descriptors.float() - item.descriptors.float().mean(1, keepdim=True))  # with signs
        signed = dataclasses.replace(item, descriptors=centered)
        features[name] = signed if how is None else compress(signed, how)
    colmap_output.write_database(tmp_path / "f.db", features, images=views)
    pycolmap = colmap_models.pycolmap
    with pycolmap.Database.open(tmp_path / "f.db") as store:
        for image in store.read_all_images():
            item, stored = features[image.name], store.read_descriptors(image.image_id)
            assert stored.type == pycolmap.FeatureExtractorType.ALIKED_N16ROT, "SIFT's matchers refuse it"
            rows = stored.to_float().data
            assert rows.dtype == np.float32 and len(rows) == store.num_keypoints_for_image(image.image_id)
            assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=2e-3)
            if how in (None, "fp16"):
                assert np.array_equal(rows, item.descriptors.float().numpy())
            elif how == "bits":
                assert np.array_equal(rows > 0, unpack_bits(item.descriptors).numpy())
            else:
                cosine = (rows * item.descriptors.float().numpy()).sum(1) / item.descriptors.float().norm(dim=1).numpy()
                assert np.allclose(cosine, 1, atol=1e-5)

"""Features and matches as files of other tools; those of the tools themselves are tested in interop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from patchprint.features import formats, match, verify
from patchprint.features.pair_lists import choose_pairs, match_pairs
from patchprint.features.storage import FeatureFolder


def test_matches_round_trip_with_and_without_verification(described: Path, tmp_path: Path) -> None:
    features = FeatureFolder(described)
    first, second, third = features
    found = {(first, second): match(features[first], features[second])}
    found[first, third] = verify(features[first], features[third], match(features[first], features[third]))
    formats.write_matches(features, found, tmp_path / "m.npz")
    back = formats.read_matches(tmp_path / "m.npz")
    assert list(back) == list(found)
    for pair, matches in found.items():
        assert torch.equal(back[pair].indices, matches.indices) and torch.equal(back[pair].distance, matches.distance)
    assert back[first, second].inliers is None
    assert torch.equal(back[first, third].inliers, found[first, third].inliers)


def test_no_matches_at_all_are_a_file_too(described: Path, tmp_path: Path) -> None:
    formats.write_matches(FeatureFolder(described), {}, tmp_path / "m.npz")
    assert formats.read_matches(tmp_path / "m.npz") == {}


def test_what_cannot_be_written_is_named_and_leaves_nothing(described: Path, tmp_path: Path) -> None:
    features = FeatureFolder(described)
    matches = match_pairs(features, choose_pairs(list(features), "exhaustive")[:1])
    with pytest.raises(ValueError, match=r"matches are written as \.h5 .*, \.db .* or \.npz"):
        formats.write_matches(features, matches, tmp_path / "m.txt")
    with pytest.raises(ValueError, match="needs a folder of features"):
        formats.write_matches(dict(features), matches, tmp_path / "m.db")
    with pytest.raises(ValueError, match="unknown format 'matlab'; known are npz, hloc"):
        formats.write_features(features, tmp_path / "f", "matlab")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "m.npz").write_text("mine")
    with pytest.raises(ValueError, match="--force"):
        formats.write_matches(features, matches, tmp_path / "m.npz")
    assert (tmp_path / "m.npz").read_text() == "mine"
    with pytest.raises(ValueError, match=r"m\.npz is not a file of matches"):
        formats.read_matches(tmp_path / "m.npz")


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
        formats.write_features(features, tmp_path / "f.db", "colmap")
    assert list(tmp_path.iterdir()) == []

"""Matches as files: of a folder of features and of two images; the files of other tools are tested in interop too."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from patchprint.common.types import Features, Matches
from patchprint.features import extract
from patchprint.interop import colmap_models, hloc
from patchprint.matching import match, verify
from patchprint.storage import match_formats
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.match_folder import read_matches
from patchprint.storage.match_formats import as_json, check_outputs, write_matches

Matched = tuple[dict[str, Features], dict[tuple[str, str], Matches], Path]


@pytest.fixture(scope="module")
def two(views: Path) -> Matched:
    """Two images, one of them under another folder than the other, and their verified matches."""
    names = (f"{views.name}/view 0.png", f"{views.name}/view 1.png")
    a, b = (extract(views.parent / name, "rootsift", max_keypoints=400) for name in names)
    return dict(zip(names, (a, b), strict=True)), {names: verify(a, b, match(a, b))}, views.parent


def test_matches_round_trip_with_and_without_verification(described: Path, tmp_path: Path) -> None:
    features = FeatureFolder(described)
    first, second, third = features
    found = {(first, second): match(features[first], features[second])}
    found[first, third] = verify(features[first], features[third], match(features[first], features[third]))
    write_matches(features, found, tmp_path / "m.npz")
    back = read_matches(tmp_path / "m.npz")
    assert list(back) == list(found)
    for pair, matches in found.items():
        assert torch.equal(back[pair].indices, matches.indices) and torch.equal(back[pair].distance, matches.distance)
    assert back[first, second].inliers is None and back[first, second].geometry is None
    verified = found[first, third]
    assert torch.equal(back[first, third].inliers, verified.inliers)
    assert torch.equal(back[first, third].model, verified.model)
    assert back[first, third].geometry == verified.geometry
    assert back[first, second].verdict is None
    assert back[first, third].verdict == verified.verdict is not None
    with np.load(tmp_path / "m.npz") as values:
        in_a, in_b = verified.points(features[first], features[third])
        assert np.array_equal(values["points_1"], torch.cat([in_a, in_b], 1))


def test_no_matches_at_all_are_a_file_too(described: Path, tmp_path: Path) -> None:
    for name in ("m.npz", "m.json", "m.csv", "m.h5", "m.db"):
        write_matches(FeatureFolder(described), {}, tmp_path / name)
    assert read_matches(tmp_path / "m.npz") == {}
    assert json.loads((tmp_path / "m.json").read_text()) == {"pairs": []}
    assert (tmp_path / "m.csv").read_text().splitlines() == [",".join(match_formats.COLUMNS)]


def test_json_and_csv_say_where_the_matches_lie(two: Matched, tmp_path: Path) -> None:
    features, matches, _ = two
    ((first, second), found), *_ = matches.items()
    in_a, in_b = found.points(features[first], features[second])
    write_matches(features, matches, tmp_path / "m.json")
    (pair,) = json.loads((tmp_path / "m.json").read_text())["pairs"]
    assert (pair.pop("image_a"), pair.pop("image_b")) == (first, second)
    assert pair == as_json(features[first].keypoints, features[second].keypoints, found)
    assert pair["indices"] == found.indices.tolist() and pair["is_inlier"] == found.inliers.tolist()
    assert torch.allclose(torch.tensor(pair["points_a"]), in_a, atol=1e-4)
    assert torch.allclose(torch.tensor(pair["points_b"]), in_b, atol=1e-4)

    write_matches(features, matches, tmp_path / "m.csv")
    with open(tmp_path / "m.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {(row["image_a"], row["image_b"]) for row in rows} == {(first, second)}
    assert [[int(row["index_a"]), int(row["index_b"])] for row in rows] == found.indices.tolist()
    assert [row["inlier"] == "1" for row in rows] == found.inliers.tolist()
    read = torch.tensor([[float(row[name]) for name in ("x_a", "y_a", "x_b", "y_b")] for row in rows])
    assert torch.allclose(read, torch.cat([in_a, in_b], 1), atol=1e-4)

    unverified = {(first, second): Matches(found.indices, found.distance)}
    write_matches(features, unverified, tmp_path / "m.csv", force=True)
    assert (tmp_path / "m.csv").read_text().splitlines()[1].endswith(",")


def test_the_hloc_file_of_two_images_holds_their_features_too(two: Matched, tmp_path: Path) -> None:
    features, matches, _ = two
    ((first, second), found), *_ = matches.items()
    write_matches(features, matches, tmp_path / "m.h5", two=True)
    with h5py.File(tmp_path / "m.h5") as store:  # as hloc's get_keypoints reads it
        assert np.array_equal(store[first]["keypoints"].__array__(), features[first].keypoints.xy)
    assert np.array_equal(hloc.read_matches(tmp_path / "m.h5", first, second), found.indices[found.inliers])
    back = dict(hloc.read_features(tmp_path / "m.h5"))
    assert list(back) == [first, second]
    assert torch.equal(match(back[first], back[second]).indices, found.indices)
    write_matches(features, matches, tmp_path / "bare.h5")
    with pytest.raises(ValueError, match="holds no features"):
        dict(hloc.read_features(tmp_path / "bare.h5"))


def test_the_colmap_database_of_two_images(two: Matched, tmp_path: Path) -> None:
    features, matches, folder = two
    ((first, second), found), *_ = matches.items()
    write_matches(features, matches, tmp_path / "m.db", images=folder, two=True)
    with colmap_models.pycolmap.Database.open(tmp_path / "m.db") as store:
        ids = {image.name: image.image_id for image in store.read_all_images()}
        assert np.array_equal(store.read_matches(ids[first], ids[second]), found.indices)
        assert store.num_verified_image_pairs() == 1
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("m.txt", r"m\.txt: matches are written as \.npz .*\.json .*\.csv .*\.h5 \(hloc\), \.db \(COLMAP\)$"),
        ("m.png", r"m\.png: matches of many images are written as \.npz"),
        ("m.db", "do not say where their images are"),
        ("", "is a folder"),
        ("mine.npz", "--force"),
    ],
)
def test_what_cannot_be_written_is_named_and_leaves_nothing(
    out: str, message: str, described: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.npz").write_text("mine")
    features = {name: replace(item, image_path=None) for name, item in FeatureFolder(described).items()}
    with pytest.raises(ValueError, match=message):
        check_outputs([tmp_path / out], features=features)
    with pytest.raises(ValueError, match=message):
        write_matches(features, {}, tmp_path / out)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.npz"]
    assert (tmp_path / "mine.npz").read_text() == "mine"
    with pytest.raises(ValueError, match=r"mine\.npz is not a file of matches"):
        read_matches(tmp_path / "mine.npz")


@pytest.mark.parametrize(("suffix", "package"), [(".h5", "h5py"), (".db", "pycolmap")])
def test_missing_packages_are_named_before_the_work(
    suffix: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"'{package}': pip install 'patchprint\[sfm\]'"):
        check_outputs([tmp_path / f"m{suffix}"], images=tmp_path, two=True)


def test_an_output_cannot_be_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="given twice"):
        check_outputs([Path("m.npz"), Path("m.csv"), tmp_path / "m.npz"])

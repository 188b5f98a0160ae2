"""Our keypoints and matches through COLMAP: database, verification, mapping, and doing it twice."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest

from patchprint.features import extract, match
from patchprint.interop import colmap, colmap_sfm
from support.scenes import THREE_VIEWS, MatchedViews


def test_three_views_reconstruct_and_resume(matched_views: MatchedViews, tmp_path: Path) -> None:
    images, features, matches = matched_views
    keypoints = {name: item.keypoints for name, item in features.items()}
    work = tmp_path / "work"
    model = colmap_sfm.reconstruct(images, keypoints, matches, work)
    numbers = colmap_sfm.summarize(model, 3)
    assert numbers["registered"] == 3
    assert numbers["points"] > 50
    assert numbers["reprojection_error_px"] < 1.5
    assert colmap.read_model(work).num_points3D() == numbers["points"]
    before = (work / "sparse" / "points3D.bin").stat().st_mtime_ns
    assert colmap_sfm.summarize(colmap_sfm.reconstruct(images, keypoints, matches, work), 3) == numbers
    assert (work / "sparse" / "points3D.bin").stat().st_mtime_ns == before
    fewer = {pair: rows[:50] for pair, rows in matches.items()}
    with pytest.raises(ValueError, match="other inputs"):
        colmap_sfm.reconstruct(images, keypoints, fewer, work)


def test_photos_of_different_sizes_get_cameras_of_their_own(tmp_path: Path) -> None:
    images = tmp_path / "photos"
    names = THREE_VIEWS.write(images)
    for name, factor in zip(names[1:], (1.25, 0.8), strict=True):
        image = cv2.imread(str(images / name), cv2.IMREAD_GRAYSCALE)
        cv2.imwrite(str(images / name), cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA))
    features = {name: extract(images / name, "rootsift", max_keypoints=600) for name in names}
    assert [item.image_size for item in features.values()] == [(480, 360), (600, 450), (384, 288)]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    matches = {(a, b): match(features[a], features[b], ratio=0.85).indices.numpy() for a, b in pairs}
    keypoints = {name: item.keypoints for name, item in features.items()}
    model = colmap_sfm.reconstruct(images, keypoints, matches, tmp_path / "work")
    assert colmap_sfm.summarize(model, 3)["registered"] == 3
    cameras = {posed.name: model.cameras[posed.camera_id] for posed in model.images.values()}
    assert {name: (camera.width, camera.height) for name, camera in cameras.items()} == {
        name: item.image_size for name, item in features.items()
    }


def test_photos_without_overlap_are_refused(matched_views: MatchedViews, tmp_path: Path) -> None:
    images, features, matches = matched_views
    keypoints = {name: item.keypoints for name, item in features.items()}
    none = {pair: rows[:0] for pair, rows in matches.items()}
    with pytest.raises(ValueError, match="overlap"):
        colmap_sfm.reconstruct(images, keypoints, none, tmp_path / "work")
    assert not (tmp_path / "work" / "sparse").exists()

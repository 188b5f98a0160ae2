"""Our keypoints and matches through COLMAP: database, verification, mapping, and doing it twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from patchprint.features import extract
from patchprint.interop import colmap_models, colmap_sfm
from patchprint.matching import match
from patchprint.metrics.geometry import camera_errors
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
    assert colmap_models.read_model(work).num_points3D() == numbers["points"]
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


def test_inexact_observations_hardly_move_cameras() -> None:
    colmap = colmap_models.pycolmap

    def made() -> Any:
        colmap.set_random_seed(0)
        return colmap.synthesize_dataset(colmap.SyntheticDatasetOptions(num_points3D=200))

    truth = colmap_models.poses_of_model(made())

    def error(adjust: Callable[[Any], object]) -> float:
        model, rng = made(), np.random.default_rng(0)
        for image in model.images.values():
            for point in image.points2D:
                point.xy = point.xy + rng.normal(0, 3, 2) * (rng.random() < 0.25)
        adjust(model)
        return float(camera_errors(colmap_models.poses_of_model(model), truth)["position"]["max"])

    assert error(colmap_sfm.adjust) < error(colmap.bundle_adjustment) / 3


def test_photos_without_overlap_are_refused(matched_views: MatchedViews, tmp_path: Path) -> None:
    images, features, matches = matched_views
    keypoints = {name: item.keypoints for name, item in features.items()}
    none = {pair: rows[:0] for pair, rows in matches.items()}
    with pytest.raises(ValueError, match="overlap"):
        colmap_sfm.reconstruct(images, keypoints, none, tmp_path / "work")
    assert not (tmp_path / "work" / "sparse").exists()


def test_photos_are_searched_side_by_side_as_memory_allows(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((2000, 3000), np.uint8))
    cv2.imwrite(str(tmp_path / "b.jpg"), np.zeros((100, 300), np.uint8))
    (tmp_path / "c.jpg").write_bytes(b"no image")
    one = colmap_sfm.BYTES_PER_PIXEL * 6e6 / 1e9

    def count(names: list[str], memory: float, size: int | None = None) -> int:
        return colmap_sfm.max_parallel_images(tmp_path, names, memory, 16, size)

    assert count(["a.png", "b.jpg"], colmap_sfm.BASE_GB + 2.5 * one) == 2
    assert count(["a.png"], 0.1) == 1, "one photo must be searched"
    assert count(["b.jpg", "c.jpg"], 4.0) == 16
    assert count(["a.png"], colmap_sfm.BASE_GB + 2.5 * one, 1500) == 10, "a quarter of the pixels"
    with pytest.raises(ValueError, match="above 0 GB"):
        count(["a.png"], 0)


def test_points_are_written_as_colmap_writes_them(tmp_path: Path) -> None:
    model = colmap_models.pycolmap.synthesize_dataset(colmap_models.pycolmap.SyntheticDatasetOptions(num_points3D=20))
    for number, point in enumerate(model.points3D.values()):
        point.color = np.array([number, 2 * number, 255 - number], np.uint8)
    model.export_PLY(tmp_path / "theirs.ply")
    colmap_sfm.write_ply(model, tmp_path / "ours.ply")
    assert (tmp_path / "ours.ply").read_bytes() == (tmp_path / "theirs.ply").read_bytes()


@pytest.mark.parametrize("mapper", ["hierarchical", "global"])
def test_other_mappers_find_the_same_cameras(
    mapper: colmap_sfm.Mapper, matched_views: MatchedViews, tmp_path: Path
) -> None:
    images, features, matches = matched_views
    keypoints = {name: item.keypoints for name, item in features.items()}
    model = colmap_sfm.reconstruct(images, keypoints, matches, tmp_path / mapper, mapper=mapper)
    numbers = colmap_sfm.summarize(model, 3)
    assert numbers["registered"] == 3 and numbers["points"] > 50 and numbers["reprojection_error_px"] < 1.5
    with pytest.raises(ValueError, match="other inputs"):
        colmap_sfm.reconstruct(images, keypoints, matches, tmp_path / mapper)


def test_parts_of_a_large_collection_fit_into_memory() -> None:
    workers, photos = colmap_sfm.plan_submodels(1.0, 8)
    assert workers == 1 and 50 <= photos < 500
    workers, photos = colmap_sfm.plan_submodels(64.0, 8)
    assert 1 < workers <= 8 and photos == 500
    assert workers * photos * colmap_sfm.BYTES_PER_MAPPED_IMAGE < 64e9
    with pytest.raises(ValueError, match=r"no mapper 'globl'; did you mean global"):
        colmap_sfm.check_mapper("globl")

"""Our keypoints and matches in COLMAP's database."""

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from patchprint.interop import colmap_database, colmap_models
from support.scenes import MatchedViews


def test_positions_in_the_model_are_half_a_pixel_from_ours(matched_views: MatchedViews, tmp_path: Path) -> None:
    images, features, _ = matched_views
    keypoints = {name: item.keypoints for name, item in features.items()}
    colmap_database.write_features(tmp_path / "database.db", images, keypoints)
    pycolmap = colmap_models.pycolmap
    with pycolmap.Database.open(tmp_path / "database.db") as store:
        for image in store.read_all_images():
            stored = store.read_keypoints(image.image_id)
            assert np.allclose(stored[:, :2], keypoints[image.name].xy.numpy() + 0.5, atol=1e-4)
        assert store.num_descriptors() == 0
    back = {image.name: image.keypoints for image in colmap_models.read_database(tmp_path / "database.db")}
    for name, expected in keypoints.items():
        assert np.allclose(back[name].frames(), expected.frames(), atol=1e-3)


def test_colmaps_own_verification_and_mapping_work_on_the_database(matched_views: MatchedViews, tmp_path: Path) -> None:
    images, features, matches = matched_views
    pycolmap, database = colmap_models.pycolmap, tmp_path / "database.db"
    _write(str(images), str(database), {name: item.keypoints for name, item in features.items()}, matches)
    (tmp_path / "pairs.txt").write_text("".join(f"{a} {b}\n" for a, b in matches))
    pycolmap.verify_matches(database, tmp_path / "pairs.txt")
    with pycolmap.Database.open(database) as store:
        assert store.num_verified_image_pairs() == 3
    options = pycolmap.IncrementalPipelineOptions(min_model_size=3)
    assert pycolmap.incremental_mapping(database, images, tmp_path, options)[0].num_reg_images() == 3


def _write(images: str, database: str, keypoints: dict, matches: dict) -> None:
    colmap_database.write_features(database, images, keypoints)
    colmap_database.write_matches(database, matches)


@pytest.mark.slow
def test_two_writers_neither_duplicate_nor_corrupt(matched_views: MatchedViews, tmp_path: Path) -> None:
    images, features, matches = matched_views
    keypoints = {name: item.keypoints for name, item in features.items()}
    database = tmp_path / "database.db"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(str(images), str(database), keypoints, matches)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    _write(str(images), str(database), keypoints, matches)
    with colmap_models.pycolmap.Database.open(database) as store:
        assert store.num_images() == 3
        assert store.num_keypoints() == sum(map(len, keypoints.values()))
        assert store.num_matches() == sum(map(len, matches.values()))


def test_matches_of_keypoints_that_are_not_there_are_refused(matched_views: MatchedViews, tmp_path: Path) -> None:
    images, features, matches = matched_views
    keypoints = {name: item.keypoints for name, item in features.items()}
    database = tmp_path / "database.db"
    colmap_database.write_features(database, images, keypoints)
    pair = next(iter(matches))
    with pytest.raises(ValueError, match="do not exist"):
        colmap_database.write_matches(database, {pair: np.array([[0, 10**6]])})
    with pytest.raises(ValueError, match=r"no image a\.png"):
        colmap_database.write_matches(database, {("a.png", "b.png"): np.array([[0, 0]])})

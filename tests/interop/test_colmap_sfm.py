"""Our keypoints and matches through COLMAP: database, verification, mapping, and doing it twice."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint.features import extract, match
from patchprint.interop import colmap, colmap_database, colmap_sfm, hloc
from patchprint.types import Features
from support.three_views import write_views

Scene = tuple[Path, dict[str, Features], dict[tuple[str, str], np.ndarray]]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    images = tmp_path_factory.mktemp("scene") / "photos"
    names = write_views(images, pattern="view-{}.png")  # COLMAP's lists of pairs know no spaces
    features = {name: extract(images / name, "rootsift", max_keypoints=600) for name in names}
    matches = {
        (a, b): match(features[a], features[b], ratio=0.85).indices.numpy()
        for i, a in enumerate(names)
        for b in names[i + 1 :]
    }
    return images, features, matches


def test_three_views_reconstruct_and_resume(scene: Scene, tmp_path: Path) -> None:
    images, features, matches = scene
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
    names = write_views(images, pattern="view-{}.png")
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


def test_positions_in_the_model_are_half_a_pixel_from_ours(scene: Scene, tmp_path: Path) -> None:
    images, features, _ = scene
    keypoints = {name: item.keypoints for name, item in features.items()}
    colmap_database.write_features(tmp_path / "database.db", images, keypoints)
    pycolmap = colmap.pycolmap
    with pycolmap.Database.open(tmp_path / "database.db") as store:
        for image in store.read_all_images():
            stored = store.read_keypoints(image.image_id)
            assert np.allclose(stored[:, :2], keypoints[image.name].xy.numpy() + 0.5, atol=1e-4)
        assert store.num_descriptors() == 0
    back = {image.name: image.keypoints for image in colmap.read_database(tmp_path / "database.db")}
    for name, expected in keypoints.items():
        assert np.allclose(back[name].frames(), expected.frames(), atol=1e-3)


def test_colmaps_own_verification_and_mapping_work_on_the_database(scene: Scene, tmp_path: Path) -> None:
    images, features, matches = scene
    pycolmap, database = colmap.pycolmap, tmp_path / "database.db"
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


def test_two_writers_neither_duplicate_nor_corrupt(scene: Scene, tmp_path: Path) -> None:
    images, features, matches = scene
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
    with colmap.pycolmap.Database.open(database) as store:
        assert store.num_images() == 3
        assert store.num_keypoints() == sum(map(len, keypoints.values()))
        assert store.num_matches() == sum(map(len, matches.values()))


def test_matches_of_keypoints_that_are_not_there_are_refused(scene: Scene, tmp_path: Path) -> None:
    images, features, matches = scene
    keypoints = {name: item.keypoints for name, item in features.items()}
    database = tmp_path / "database.db"
    colmap_database.write_features(database, images, keypoints)
    pair = next(iter(matches))
    with pytest.raises(ValueError, match="not there"):
        colmap_database.write_matches(database, {pair: np.array([[0, 10**6]])})
    with pytest.raises(ValueError, match="no photo"):
        colmap_database.write_matches(database, {("a.png", "b.png"): np.array([[0, 0]])})


def test_photos_without_overlap_are_refused(scene: Scene, tmp_path: Path) -> None:
    images, features, matches = scene
    keypoints = {name: item.keypoints for name, item in features.items()}
    none = {pair: rows[:0] for pair, rows in matches.items()}
    with pytest.raises(ValueError, match="overlap"):
        colmap_sfm.reconstruct(images, keypoints, none, tmp_path / "work")
    assert not (tmp_path / "work" / "sparse").exists()


def test_hloc_files_are_read_as_hloc_documents_them(scene: Scene, tmp_path: Path) -> None:
    """Names, shapes and dtypes as hloc's own readers use them (get_keypoints, get_matches)."""
    import h5py

    _, features, matches = scene
    hloc.write_features(tmp_path / "features.h5", features.items())
    first, second = next(iter(matches))
    found = match(features[first], features[second])
    hloc.write_matches(tmp_path / "matches.h5", {(first, second): found}, {n: len(f) for n, f in features.items()})
    with h5py.File(tmp_path / "features.h5", "r", libver="latest") as store:
        dataset = store[first]["keypoints"]
        points = dataset.__array__()
        assert dataset.attrs.get("uncertainty") is None
        assert np.allclose(points, features[first].keypoints.xy)
        assert store[first]["descriptors"].shape == (128, len(points))
        assert store[first]["image_size"].__array__().tolist() == list(features[first].image_size)
    with h5py.File(tmp_path / "matches.h5", "r", libver="latest") as store:
        group = store["/".join((first.replace("/", "-"), second.replace("/", "-")))]
        target, scores = group["matches0"].__array__(), group["matching_scores0"].__array__()
        rows = np.where(target != -1)[0]
        assert np.array_equal(np.stack([rows, target[rows]], -1), found.indices)
        assert (scores[rows] > 0).all()
    assert np.array_equal(hloc.read_matches(tmp_path / "matches.h5", second, first)[:, ::-1], found.indices)
    back = dict(hloc.read_features(tmp_path / "features.h5"))
    assert back[first].model == features[first].model
    assert np.allclose(back[first].keypoints.frames(), features[first].keypoints.frames())
    (tmp_path / "bad.h5").write_bytes(b"no")
    with pytest.raises(ValueError, match="not an HDF5 file"):
        next(hloc.read_features(tmp_path / "bad.h5"))

"""Tracks from COLMAP models: with a database, without one, densified, and broken."""

import contextlib
import shutil
import sqlite3

import cv2
import numpy as np
import pytest
import torch

from patchprint.data import open_source
from patchprint.data.builders import colmap_tracks
from patchprint.interop.colmap_models import read_model
from support.small_sfm import wall_positions, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A COLMAP model of a wall."""
    root = tmp_path_factory.mktemp("sfm") / "wall"
    return root, *write_model(root)


@pytest.mark.parametrize("binary", [False, True])
def test_tracks_lie_where_the_points_are(model, tmp_path, binary):
    root, shifts, wall_xy, _ = model
    sparse = root / "sparse"
    if binary:
        sparse = tmp_path / "bin"
        sparse.mkdir()
        read_model(root).write_binary(sparse)
    colmap_tracks.build(root, tmp_path / "out", sparse=sparse)
    store = open_source(tmp_path / "out")
    assert store.num_points == len(wall_xy) > 60 and (store.num_views == 2).all()
    assert np.abs(wall_positions(store, shifts) - wall_xy[store.tracks.point]).max() < 1.0
    assert store.names.scenes == ["wall"]
    patches = store.sample(torch.arange(store.num_points), torch.arange(2).expand(store.num_points, 2), 32)
    assert float((patches[:, 0] - patches[:, 1]).abs().mean()) < 0.03, "both views show the same pixels"


def test_without_a_database_keypoints_are_detected_again(model, tmp_path):
    root, *_ = model
    colmap_tracks.build(root, tmp_path / "with")
    for name in ("images", "sparse"):
        (tmp_path / "bare").mkdir(exist_ok=True)
        (tmp_path / "bare" / name).symlink_to(root / name)
    colmap_tracks.build(tmp_path / "bare", tmp_path / "without")
    known, guessed = open_source(tmp_path / "with").tracks, open_source(tmp_path / "without").tracks
    assert len(guessed.point) > 0.95 * len(known.point)
    scales = [
        {(i, *xy): scale for i, xy, scale in zip(t.image, t.xy.tolist(), t.scale, strict=True)}
        for t in (known, guessed)
    ]
    both = scales[0].keys() & scales[1].keys()
    assert len(both) > 0.95 * len(scales[0]), "positions are those of the model"
    assert np.mean([abs(np.log(scales[1][place] / scales[0][place])) < 0.05 for place in both]) > 0.8


def resized(root):
    path = root / "images" / "photo1.png"
    cv2.imwrite(str(path), cv2.resize(cv2.imread(str(path)), (100, 80)))


def other_database(root):
    (root / "database.db").unlink()
    write_model(root / "other", images=5, seed=3)
    (root / "other" / "database.db").rename(root / "database.db")


def shifted_keypoints(root):
    with contextlib.closing(sqlite3.connect(root / "database.db")) as connection, connection:
        for image, columns, data in connection.execute("SELECT image_id, cols, data FROM keypoints").fetchall():
            rows = np.frombuffer(data, np.float32).reshape(-1, columns).copy()
            rows[:, 0] += 50
            connection.execute("UPDATE keypoints SET data = ? WHERE image_id = ?", (rows.tobytes(), image))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda root: (root / "images" / "photo2.png").unlink(),
            r"photo2.png is missing, but the model has tracks in it",
        ),
        (resized, r"photo1.png is 100x80, but its camera in the model is 200x160; the image was resized"),
        (
            lambda root: (root / "images" / "photo0.png").write_bytes(b"\x89PNG\r\n\x1a\njunk"),
            r"photo0.png is cut short",
        ),
        (other_database, r"has no keypoints for the tracks in photo0\.png; it belongs to another model"),
        (shifted_keypoints, r"the model disagree by 50 px in photo0\.png; take those of one run"),
        (lambda root: (root / "sparse" / "points3D.txt").write_text(""), "holds no 3D points"),
        (lambda root: (root / "sparse" / "cameras.txt").unlink(), "holds no COLMAP model"),
    ],
)
def test_broken_models_are_named_and_leave_nothing(tmp_path, damage, message):
    root = tmp_path / "wall"
    write_model(root)
    damage(root)
    with pytest.raises(ValueError, match=message):
        colmap_tracks.build(root, tmp_path / "out", strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["wall"]


def test_a_image_that_is_gone_is_left_out_with_its_tracks(tmp_path, capsys):
    root = tmp_path / "wall"
    shifts, _, _ = write_model(root, views=3)
    colmap_tracks.build(root, tmp_path / "whole")
    (root / "images" / "photo2.png").unlink()
    colmap_tracks.build(root, tmp_path / "out")
    assert "left out: " in (said := capsys.readouterr().err) and "photo2.png is missing" in said
    whole, fewer = open_source(tmp_path / "whole"), open_source(tmp_path / "out")
    assert fewer.names.images == [name for name in whole.names.images if name != "photo2.png"]
    lost = (whole.tracks.image == whole.names.images.index("photo2.png")).sum()
    assert len(fewer.tracks.point) == len(whole.tracks.point) - lost, "three views less one are still two"
    spread = [np.ptp(wall_positions(fewer, shifts)[fewer.tracks.point == point], axis=0) for point in range(20)]
    assert np.max(spread) < 3, "views of a point still show one place of the wall"
    shutil.rmtree(root / "images")
    (root / "images").mkdir()
    with pytest.raises(ValueError, match="holds none of the 5 images of the model"):
        colmap_tracks.build(root, tmp_path / "none")


def test_a_real_set_has_the_counts_of_its_model(shared, tmp_path):
    source = shared("photos/entry")
    colmap_tracks.build(source, tmp_path / "entry")
    store, model = open_source(tmp_path / "entry"), read_model(source)
    assert store.num_points == model.num_points3D() and len(store.images) == model.num_reg_images()
    train, val = store.split("train"), store.split("val")
    assert val.num_points > 0.1 * store.num_points and train.num_points > 0.75 * store.num_points


def test_densify_finds_hidden_views_where_they_must_be(model, tmp_path):
    root, shifts, wall_xy, found_in = model
    facts = colmap_tracks.build(root, tmp_path / "out", densify=True)
    store = open_source(tmp_path / "out")
    hidden = int((found_in - 2).sum())
    assert facts["added_views"] == len(store.tracks.point) - 2 * len(wall_xy)
    assert facts["added_views"] > 0.6 * hidden, (facts, hidden)
    away = np.linalg.norm(wall_positions(store, shifts) - wall_xy[store.tracks.point], axis=1)
    assert np.mean(away <= 2.0) >= 0.99
    patches = store.sample(
        torch.arange(store.num_points), torch.stack([torch.zeros_like(store.num_views), store.num_views - 1], 1), 32
    )
    assert float((patches[:, 0] - patches[:, 1]).abs().mean()) < 0.05


def test_building_twice_gives_the_same_bytes(model, tmp_path):
    root, *_ = model
    for name in ("a", "b"):
        colmap_tracks.build(root, tmp_path / name, densify=True)
    assert (tmp_path / "a" / "manifest.json").read_bytes() == (tmp_path / "b" / "manifest.json").read_bytes()

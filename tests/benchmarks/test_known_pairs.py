"""Scenes with known geometry are found, and what is known of them judges matches and estimates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from patchprint.benchmarks._known_pairs import KnownCameras, KnownHomography, find_scenes
from support.scenes import Room
from support.two_cameras import INTRINSICS, RELATIVE_POSE, seen_by_two_cameras


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rooms")
    for name in ("one", "two"):
        Room(views=3).write_with_cameras(root / name)
    return root


def test_scenes_with_cameras(rooms: Path) -> None:
    both, (one,) = find_scenes(rooms), find_scenes(rooms / "one")
    assert [scene.name for scene in both] == ["one", "two"]
    assert (
        list(one.pairs)
        == list(both[0].pairs)
        == [
            ("0000.png", "0001.png"),
            ("0000.png", "0002.png"),
            ("0001.png", "0002.png"),
        ]
    )
    assert [scene.name for scene in find_scenes(rooms, ("two",))] == ["two"]
    with pytest.raises(ValueError, match="has no scene three; it has one, two"):
        find_scenes(rooms, ("three",))


def test_scenes_of_planes(sequences: Path) -> None:
    scenes = find_scenes(sequences)
    assert [(scene.name, list(scene.pairs)) for scene in scenes] == [
        ("one", [("1", "2"), ("1", "3")]),
        ("two", [("1", "2")]),
    ]
    assert all(isinstance(truth, KnownHomography) for truth in scenes[0].pairs.values())


def test_damaged_scenes_are_one_sentence(rooms: Path, tmp_path: Path) -> None:
    Room(views=2).write_with_cameras(tmp_path / "room")
    (tmp_path / "room" / "gt_dense_cameras" / "0001.png.camera").unlink()
    with pytest.raises(ValueError, match="has 1 images with a camera"):
        find_scenes(tmp_path / "room")
    (tmp_path / "room" / "K.txt").unlink()
    with pytest.raises(ValueError, match=r"has no K\.txt"):
        find_scenes(tmp_path / "room")
    with pytest.raises(ValueError, match="not a folder"):
        find_scenes(tmp_path / "nowhere")


def test_a_homography_judges() -> None:
    shift = np.array([[1.0, 0, 3], [0, 1, 4], [0, 0, 1]])
    truth, xy = KnownHomography(shift), np.array([[0.0, 0], [50, 20]])
    np.testing.assert_allclose(truth.match_errors(xy, xy + np.array([3.0, 4.0])), 0, atol=1e-9)
    np.testing.assert_allclose(truth.match_errors(xy, xy), 5)


def test_cameras_judge() -> None:
    a, b, matches = seen_by_two_cameras("general", 200, outliers=0.3, noise=0.2, seed=0)
    truth = KnownCameras(*RELATIVE_POSE, INTRINSICS)
    errors = truth.match_errors(*(points.double().numpy() for points in matches.points(a, b)))
    assert 0.6 < (errors < 3).mean() < 0.8
    error = truth.estimate_error(a, b, matches)
    assert error is not None and error < 2
    assert KnownCameras(np.eye(3), RELATIVE_POSE[1], INTRINSICS).estimate_error(a, b, matches) > 4  # type: ignore[operator]

"""Planes of two images: found where points agree with a homography, and only there."""

from pathlib import Path

import numpy as np
import pytest

from patchprint.common.errors import UserError
from patchprint.data.builders import planes as planes_module
from patchprint.data.builders.planes import build, find_planes, read_planes
from patchprint.data.builders.sfm_scene import SfmScene
from patchprint.interop.images import read_gray
from patchprint.ops.geometry import project
from support.small_sfm import write_model

LEFT = np.array([[1.1, 0.1, 5.0], [-0.1, 1.05, 20.0], [1e-4, 0, 1]])
RIGHT = np.array([[0.7, 0.0, 120.0], [0.2, 0.9, -60.0], [0, 1e-4, 1]])


def scene(scattered: bool = False) -> SfmScene:
    """Two images; left of 400 pixels a plane, right of it another one, or points that agree with nothing."""
    generator = np.random.default_rng(0)
    a = generator.uniform(0, 800, (300, 2))
    right = a[:, 0] > 400
    b = np.where(right[:, None], project(RIGHT, a), project(LEFT, a)) + generator.normal(0, 0.2, a.shape)
    if scattered:
        b[right] += generator.normal(0, 40, a.shape)[right]
    point = np.repeat(np.arange(300), 2)
    xy = np.stack([a, b], 1).reshape(-1, 2)
    return SfmScene(["a", "b"], [None, None], np.tile([0, 1], 300), point, xy, point, np.zeros((300, 3)))


def test_each_plane_has_its_homography() -> None:
    found = find_planes(scene(), np.ones((2, 2)), 800, 40, 1000, seed=0)
    assert len(found) > 15
    sides = set()
    for disc, homography in zip(
        found.disc[found.images[:, 0] == 0], found.homography[found.images[:, 0] == 0], strict=True
    ):
        if abs(disc[0] - 400) > disc[2]:
            sides.add(bool(disc[0] < 400))
            around = disc[:2] + 0.5 * disc[2] * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
            assert np.abs(project(homography, around) - project(LEFT if disc[0] < 400 else RIGHT, around)).max() < 1.0
    assert sides in ({True, False}, set())  # a pair is looked at in one direction, drawn at random


def test_nothing_is_found_where_points_do_not_agree() -> None:
    found = find_planes(scene(scattered=True), np.ones((2, 2)), 800, 40, 1000, seed=0)
    assert len(found) > 5
    first = found.disc[found.images[:, 0] == 0]
    assert (first[:, 0] - 0.5 * first[:, 2] < 400).all()


def test_images_that_were_made_smaller() -> None:
    """Homographies are those of the pixels that are stored."""
    whole = find_planes(scene(), np.ones((2, 2)), 800, 40, 1000, seed=0)
    half = find_planes(scene(), np.full((2, 2), 0.5), 400, 40, 1000, seed=0)
    assert len(half) == len(whole)
    middle = (whole.disc[0, :2] + 0.5) / 2 - 0.5
    assert np.abs(half.disc[0, :2] - middle).max() < 0.1
    expected = (project(whole.homography[0], whole.disc[:1, :2]) + 0.5) / 2 - 0.5
    assert np.abs(project(half.homography[0], middle[None]) - expected).max() < 0.5


def test_planes_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall of the model is a plane: images are shifted copies."""
    shifts, *_ = write_model(tmp_path / "wall", images=3, views=3)
    build(tmp_path / "wall", tmp_path / "planes", max_size=100, each=20)
    planes = read_planes(tmp_path / "planes")
    assert planes is not None and len(planes) > 3
    assert read_gray(tmp_path / "planes" / planes.names[0]).shape == (80, 100)
    for (first, second), homography, disc in zip(planes.images, planes.homography, planes.disc, strict=True):
        ahead = project(homography, disc[None, :2])[0]
        assert np.abs(ahead - disc[:2] - (shifts[first] - shifts[second]) / 2).max() < 1.0
    assert read_planes(tmp_path / "wall") is None
    monkeypatch.setattr(planes_module, "_POINTS", 10_000)
    with pytest.raises(UserError, match="no two images"):
        build(tmp_path / "wall", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_damaged_planes_are_refused(tmp_path: Path) -> None:
    good = {"images": np.array([[0, 1]]), "homography": np.eye(3)[None], "disc": np.zeros((1, 3))}
    for name, wrong in {"images": np.array([[0, 2]]), "disc": np.zeros((1, 2)), "homography": np.eye(3)}.items():
        np.savez(tmp_path / "planes.npz", names=np.array(["a.png", "b.png"]), **{**good, name: wrong})
        with pytest.raises(UserError, match="planes"):
            read_planes(tmp_path)

"""Bare images to tracks. COLMAP itself is replaced by a ready model except where its own matching is what is tested."""

import shutil

import pytest

from patchprint.common import files
from patchprint.data import open_source
from patchprint.data.builders import image_folder as bare_images
from patchprint.interop.colmap_models import read_model
from support.small_sfm import write_model


@pytest.fixture
def ready(tmp_path, monkeypatch):
    """A reconstruction that has been made before; records how it was asked for."""
    write_model(tmp_path / "wall")
    asked = []

    def reconstruction(image_folder, work, names, cameras, max_keypoints, max_image_size, seed, matching, threads):
        asked.append((matching, cameras.single_camera, len(names)))
        assert threads >= 1
        files.claim_folder(work, "a test", ["*"])
        shutil.copytree(tmp_path / "wall" / "sparse", work / "sparse", dirs_exist_ok=True)
        shutil.copy(tmp_path / "wall" / "database.db", work / "database.db")
        return read_model(work / "sparse")

    monkeypatch.setattr(bare_images, "sift_reconstruction", reconstruction)
    return tmp_path, asked


def test_images_become_a_store_and_the_work_folder_goes(ready):
    root, asked = ready
    bare_images.build(root / "wall" / "images", root / "out", single_camera=True)
    assert asked == [("exhaustive", True, 5)]
    assert open_source(root / "out").num_points > 50
    assert sorted(path.name for path in root.iterdir()) == ["out", "wall"]
    bare_images.build(root / "wall" / "images", root / "out2", work=root / "work")
    assert (root / "work" / "sparse").is_dir(), "a named one stays"


def test_many_images_are_matched_by_retrieval(ready, monkeypatch):
    root, asked = ready
    monkeypatch.setattr(bare_images, "EXHAUSTIVE_BELOW", 5)
    bare_images.build(root / "wall" / "images", root / "out")
    bare_images.build(root / "wall" / "images", root / "out2", pairs="sequential")
    assert [matching for matching, *_ in asked] == ["retrieval", "sequential"]


def test_one_image_or_a_broken_one_is_refused_before_any_work(ready):
    root, asked = ready
    for path in sorted((root / "wall" / "images").iterdir())[1:]:
        path.unlink()
    with pytest.raises(ValueError, match="needs at least two"):
        bare_images.build(root / "wall" / "images", root / "out")
    (root / "wall" / "images" / "b.jpg").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"b.jpg is not an image"):
        bare_images.build(root / "wall" / "images", root / "out", strict=True)
    with pytest.raises(ValueError, match="holds 1 readable image"):
        bare_images.build(root / "wall" / "images", root / "out")
    assert asked == []


def test_a_broken_image_is_named_and_left_out(ready, capsys):
    root, asked = ready
    (root / "wall" / "images" / "b.jpg").write_bytes(b"no image")
    bare_images.build(root / "wall" / "images", root / "out")
    assert "b.jpg is not an image" in capsys.readouterr().err
    assert asked == [("exhaustive", False, 5)]

"""Images without tracks: every keypoint is a point with one view, and whole images are held out."""

from pathlib import Path

import numpy as np
import pytest
import torch

cv2 = pytest.importorskip("cv2")
bundled = pytest.importorskip("patchprint.data.builders.bundled_images")
pytest.importorskip("skimage.data")

from patchprint.common.errors import UserError  # noqa: E402
from patchprint.data.builders import unlabeled  # noqa: E402
from patchprint.data.tracks import TrackStore  # noqa: E402
from patchprint.detectors import detect  # noqa: E402
from patchprint.ops.sampling import ImagePyramids, cut_patches  # noqa: E402


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("camera", "coins", "text"):
        cv2.imwrite(str(folder / f"{name}.png"), bundled.image(name))
    cv2.imwrite(str(folder / "blank.png"), np.full((64, 64), 7, np.uint8))
    return folder


def test_points_are_the_keypoints_of_each_image(folder: Path, tmp_path: Path) -> None:
    unlabeled.build(folder, tmp_path / "store", max_keypoints=150)
    store = TrackStore.open(tmp_path / "store")
    assert store.names.images == ["camera.png", "coins.png", "text.png"]
    assert store.patch_scale == 24.0
    assert (store.num_views == 1).all()
    camera = bundled.image("camera")
    keypoints = detect(camera, "dog-published", max_keypoints=150, spread=False)
    here = (store.scene == 0).nonzero()[:, 0]
    cut = store.sample(here, torch.zeros(len(here), 1, dtype=torch.int64), 32)[:, 0]
    expected = cut_patches(ImagePyramids.build([camera]), 0, keypoints, 24.0, 32)
    assert len(here) == len(keypoints) <= 150
    torch.testing.assert_close(cut, expected, atol=1e-3, rtol=0)


def test_the_last_images_are_held_out(folder: Path, tmp_path: Path) -> None:
    unlabeled.build(folder, tmp_path / "store", max_keypoints=50)
    store = TrackStore.open(tmp_path / "store")
    assert store.split("val").scene.unique().tolist() == [2]
    assert store.split("train").scene.unique().tolist() == [0, 1]


def test_images_are_made_smaller_left_out_or_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.png").write_bytes(b"no image")
    unlabeled.build(folder, tmp_path / "store", max_size=128, max_mb=0.03)
    assert "broken.png is not an image" in capsys.readouterr().err
    assert (tmp_path / "store" / "images.bin").stat().st_size <= 0.03 * 2**20
    store = TrackStore.open(tmp_path / "store")
    assert max(store.images.pixels(0).shape) == 128
    with pytest.raises(UserError, match=r"broken\.png is not an image"):
        unlabeled.build(folder, tmp_path / "strict", strict=True)


def test_what_cannot_be_is_said_before_work_begins(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--max-size is 0"):
        unlabeled.build(folder, tmp_path / "store", max_size=0)
    with pytest.raises(UserError, match="max_keypoints must be at least 1"):
        unlabeled.build(folder, tmp_path / "store", max_keypoints=0)
    with pytest.raises(UserError, match="there is no detector 'dogg'"):
        unlabeled.build(folder, tmp_path / "store", detector="dogg")
    for name in ("camera", "coins", "text"):
        (folder / f"{name}.png").unlink()
    with pytest.raises(UserError, match="no keypoint was found"):
        unlabeled.build(folder, tmp_path / "store")

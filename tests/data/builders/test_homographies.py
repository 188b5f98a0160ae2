"""Pairs made from images alone: the geometry is exact, and what is called the same point is the same point."""

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("cv2")
bundled = pytest.importorskip("patchprint.data.builders.bundled_images")
pytest.importorskip("skimage.data")

from patchprint.common.types import Keypoints  # noqa: E402
from patchprint.data.builders import homographies  # noqa: E402
from patchprint.data.tracks import TrackStore  # noqa: E402
from patchprint.detectors import detect  # noqa: E402


def test_find_again_wants_place_scale_and_angle() -> None:
    expected = Keypoints(torch.tensor([[10.0, 10.0]]), torch.tensor([2.0]), torch.tensor([3.1]))

    def found(x: float, scale: float, angle: float) -> int:
        detected = Keypoints(torch.tensor([[x, 10.0]]), torch.tensor([scale]), torch.tensor([angle]))
        return int(homographies.find_again(expected, detected)[0])

    assert found(11.0, 2.2, -3.1) == 0  # the angle wraps around
    assert found(13.0, 2.0, 3.1) == found(10.0, 4.0, 3.1) == found(10.0, 2.0, 2.0) == -1
    assert homographies.find_again(expected, Keypoints.empty()).tolist() == [-1]


def test_views_of_a_point_show_the_same_pixels() -> None:
    images, tracks = homographies.make_tracks([bundled.image("camera")], num_views=3, seed=0, max_keypoints=300)
    store = TrackStore.from_images(images, tracks)
    points = torch.arange(store.num_points)
    patches = store.sample(points, torch.tensor([[0, 1]]).expand(len(points), 2), 32).flatten(2)
    patches = patches - patches.mean(-1, keepdim=True)
    patches = patches / patches.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    same = (patches[:, 0] * patches[:, 1]).sum(-1)
    other = (patches[:, 0] * patches[:, 1].roll(len(points) // 2, 0)).sum(-1)
    assert store.num_points > 100
    assert same.median() > 0.75
    assert other.median().abs() < 0.3


def test_same_seed_same_data() -> None:
    first, second = (homographies.render_views(bundled.image("coins"), 2, seed=5) for _ in range(2))
    assert all(np.array_equal(a.image, b.image) for a, b in zip(first, second, strict=True))
    other = homographies.render_views(bundled.image("coins"), 2, seed=6)
    assert not np.array_equal(first[1].image, other[1].image)


def test_tracks_are_of_the_detector_that_is_asked_for() -> None:
    image = bundled.image("camera")[:256, :256]
    by_dog, by_harris = (
        homographies.make_tracks([image], 2, 0, 200, 1.0, detector)[1] for detector in ("dog-published", "harris")
    )
    found = detect(image, "harris", max_keypoints=200, spread=False)
    first = by_harris.xy[by_harris.image == 0]
    nearest = (torch.from_numpy(first)[:, None] - found.xy).norm(dim=-1).min(1).values
    assert len(first) > 20 and nearest.max() < 1e-3
    assert not np.array_equal(by_dog.xy, by_harris.xy)


def test_a_broken_image_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cv2 = pytest.importorskip("cv2")
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="none of the images"):
        homographies.build(folder, tmp_path / "none")
    cv2.imwrite(str(folder / "ä b.png"), bundled.image("camera"))
    homographies.build(folder, tmp_path / "store", views=2, max_keypoints=200, max_size=256)
    assert "a.png is not an image" in capsys.readouterr().err
    store = TrackStore.open(tmp_path / "store")
    assert store.names.images == [f"ä b.png view {number}" for number in range(3)]
    assert store.num_points > 30 and store.num_views.min() >= 2
    with pytest.raises(ValueError, match="exists already"):
        homographies.build(folder, tmp_path / "store", views=2, max_keypoints=200, max_size=256)
    with pytest.raises(ValueError, match=r"a\.png is not an image"):
        homographies.build(folder, tmp_path / "strict", strict=True)


def test_flat_images_and_empty_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="more texture"):
        homographies.make_tracks([np.full((100, 100), 9, np.uint8)], num_views=1, seed=0)
    with pytest.raises(ValueError, match="holds no images"):
        homographies.build(tmp_path, tmp_path / "out")
    with pytest.raises(ValueError, match="--views is 0; it must be at least 1"):
        homographies.build(tmp_path, tmp_path / "out", views=0)


def test_the_stereo_pair_and_held_out_images_stay_out_of_training() -> None:
    assert not set(bundled.TRAINING) & set(bundled.HELD_OUT)
    assert not any("motorcycle" in name for name in (*bundled.TRAINING, *bundled.HELD_OUT))
    pair = bundled.stereo_pair()
    assert pair.left.shape == pair.right.shape == pair.disparity.shape
    rows, columns = np.nonzero(np.isfinite(pair.disparity[100:400:20, 200:700:20]))
    y, x = 100 + 20 * rows, 200 + 20 * columns
    there = pair.right[y, np.clip(np.rint(x - pair.disparity[y, x]).astype(int), 0, None)].astype(float)
    here = pair.left[y, x].astype(float)
    assert np.corrcoef(here, there)[0, 1] > 0.8

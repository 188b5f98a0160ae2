"""A folder of photos is described once, and only what is missing is described again."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint.common.progress import json_lines
from patchprint.features.extract import DescribeSettings
from patchprint.storage import describe_jobs, feature_folder
from patchprint.storage.feature_folder import describe_folder
from support.scenes import Room

SETTINGS = DescribeSettings(model="pixels", max_keypoints=30)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    Room(views=2, height=80, width=90).write(tmp_path / "photos")
    return tmp_path / "photos"


def test_features_of_other_settings_are_refused_or_replaced(photos: Path, tmp_path: Path) -> None:
    describe_folder(photos, tmp_path / "out", SETTINGS)
    with pytest.raises(ValueError, match="other inputs or settings"):
        describe_folder(photos, tmp_path / "out", DescribeSettings(model="pixels", max_keypoints=20))
    again = describe_folder(photos, tmp_path / "out", DescribeSettings(model="pixels", max_keypoints=20), force=True)
    assert [len(item) for item in again.values()] == [20, 20]


def test_a_slow_model_is_pointed_out_before_it_takes_minutes(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(feature_folder, "_SLOW_FROM", 2)
    for model in ("patchprint", "patchprint.tiny", "rootsift"):
        settings = DescribeSettings(model=model, max_keypoints=5, device="cpu", engine="float32")
        describe_folder(photos, tmp_path / model, settings, report=said.append)
    (hint,) = said
    assert hint.startswith("patchprint is slow without a GPU; --model patchprint.fast")
    for installed in (True, False):
        monkeypatch.setattr(feature_folder, "is_installed", lambda name, has=installed: has)
        settings = DescribeSettings(max_keypoints=5, device="cpu", engine="float32")
        describe_folder(photos, tmp_path / f"{installed}", settings, report=said.append)
        assert ("pip install 'patchprint[fast]'" in said[-1]) != installed


def test_named_photos_and_damaged_ones(photos: Path, tmp_path: Path) -> None:
    said: list[str] = []
    (photos / "view-0.png").write_bytes(b"no image")
    assert list(describe_folder(photos, tmp_path / "all", SETTINGS, report=said.append)) == ["view-1.png"]
    assert len(said) == 1 and said[0].startswith("left out: ") and "view-0.png" in said[0]
    with pytest.raises(ValueError, match="none of the 1 images"):
        describe_folder(photos, tmp_path / "one", SETTINGS, names=["view-0.png"], report=said.append)
    with pytest.raises(ValueError, match=r"view-0\.png is not an image"):
        describe_folder(photos, tmp_path / "strict", SETTINGS, strict=True)


def test_masks_keep_keypoints_away(photos: Path, tmp_path: Path) -> None:
    said: list[str] = []
    masks = tmp_path / "masks"
    masks.mkdir()
    left_half = np.zeros((80, 90), np.uint8)
    left_half[:, :45] = 255
    cv2.imwrite(str(masks / "view-0.png.png"), left_half)
    found = describe_folder(photos, tmp_path / "out", SETTINGS, masks=masks, report=said.append)
    assert found["view-0.png"].keypoints.xy[:, 0].max() < 45 < found["view-1.png"].keypoints.xy[:, 0].max()
    assert said == ["1 images have no mask and are searched as a whole, the first is view-1.png"]
    cv2.imwrite(str(masks / "view-1.png"), left_half[:40])
    left = describe_folder(photos, tmp_path / "left", SETTINGS, masks=masks, report=said.append)
    assert list(left) == ["view-0.png"]
    assert "view-1.png: the mask has shape (40, 90), the image (80, 90)" in said[-1]


def test_wrong_settings_are_named_before_the_folder_is_made(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for options, message in [
        ({"masks": tmp_path / "nowhere"}, "not a folder of masks"),
        ({"masks": tmp_path / "empty"}, "expected for example view-0.png.png"),
        ({"workers": 0}, "at least 1 worker"),
    ]:
        with pytest.raises(ValueError, match=message):
            describe_folder(photos, tmp_path / "out", SETTINGS, **options)
    assert not (tmp_path / "out").exists()


def test_a_missing_package_is_no_matter_of_one_photo(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    with pytest.raises(ValueError, match="needs the package 'pycolmap'"):
        describe_folder(
            photos, tmp_path / "out", DescribeSettings(model="pixels", detector="colmap", max_keypoints=None)
        )


def test_known_features_are_taken_over(photos: Path, tmp_path: Path) -> None:
    known = describe_folder(photos, tmp_path / "known", SETTINGS, names=["view-0.png"])
    before = known.contents("view-0.png")
    both = describe_folder(photos, tmp_path / "both", SETTINGS, names=["view-1.png"], known=known)
    assert list(both) == ["view-0.png", "view-1.png"]
    assert both.contents("view-0.png") == before == known.contents("view-0.png")


def test_before_a_gpu_photos_are_read_ahead_and_the_features_are_the_same(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of GPU machines, with a model that is on the CPU: processes find keypoints, this one describes."""
    (photos / "no-image.png").write_bytes(b"no image")
    alone = describe_folder(photos, tmp_path / "alone", SETTINGS)
    monkeypatch.setattr(describe_jobs, "choose_device", lambda device: torch.device("cuda"))
    said: list[str] = []
    fed = describe_folder(photos, tmp_path / "fed", SETTINGS, workers=2, report=said.append)
    assert len(said) == 1 and "no-image.png" in said[0]
    assert list(fed) == list(alone)
    for name in alone:
        assert fed.contents(name) == alone.contents(name)


@pytest.mark.parametrize("many", [False, True])
def test_for_a_gpu_that_finds_keypoints_threads_read_ahead_or_processes_do_all(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    (photos / "no-image.png").write_bytes(b"no image")
    left_half = np.zeros((80, 90), np.uint8)
    left_half[:, :45] = 255
    masks = tmp_path / "masks"
    masks.mkdir()
    cv2.imwrite(str(masks / "view-0.png.png"), left_half)
    quiet: list[str] = []
    alone = describe_folder(photos, tmp_path / "alone", SETTINGS, masks=masks, report=quiet.append)
    monkeypatch.setattr(describe_jobs, "_is_for_gpu", lambda settings: True)
    if many:
        monkeypatch.setattr(describe_jobs, "_MANY", 1)
    said: list[str] = []
    with json_lines(tmp_path / "progress.jsonl"):
        fed = describe_folder(photos, tmp_path / "fed", SETTINGS, masks=masks, workers=3, report=said.append)
    assert said == quiet and "no-image.png" in said[-1]
    assert list(fed) == list(alone) == ["view-0.png", "view-1.png"]
    for name in alone:
        assert fed.contents(name) == alone.contents(name)
    last = json.loads((tmp_path / "progress.jsonl").read_text().splitlines()[-1])
    stations = {"read", "detect", "describe", "write"}  # threads begin them in any order
    assert set(last.get("stations_ms", ())) == (set() if many else stations)
    assert not (tmp_path / "fed" / feature_folder.IN_HAND).exists()


def test_images_that_were_at_work_when_a_run_ended_are_described_apart(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = describe_folder(photos, tmp_path / "out", SETTINGS)
    expected = {name: described.contents(name) for name in described}
    for name in expected:
        (tmp_path / "out" / f"{name}.npz").unlink()
    (tmp_path / "out" / feature_folder.IN_HAND).write_text(str(photos / "view-0.png"), encoding="utf-8")
    apart: list[str] = []

    def in_processes(jobs: list[describe_jobs.Job], *rest: object) -> Iterator[tuple[describe_jobs.Job, None]]:
        apart.extend(Path(job.image).name for job in jobs)
        return iter(())

    monkeypatch.setattr(describe_jobs, "_run_in_processes", in_processes)
    assert list(describe_folder(photos, tmp_path / "out", SETTINGS)) == ["view-1.png"]
    assert apart == ["view-0.png"]


def test_at_most_so_many_photos_are_taken_ahead() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(20):
            taken.append(number)
            yield number

    with ThreadPoolExecutor(2) as pool:
        for given, outcome in enumerate(describe_jobs._map_ahead(pool, lambda number: -number, numbers(), ahead=4)):
            assert outcome == -given
            assert len(taken) <= given + 4
    assert taken == list(range(20))


def test_folders_of_earlier_versions_are_resumed(photos: Path, tmp_path: Path) -> None:
    """The manifest keeps the keys that it had when masks were a part of the settings."""
    describe_folder(photos, tmp_path / "out", SETTINGS)
    manifest = json.loads((tmp_path / "out" / "features.json").read_text())
    assert manifest["settings"] == {
        "model": "pixels", "detector": "dog", "max_keypoints": 30, "upright": False, "spread": True, "exif": False,
        "max_size": None, "masks": "",
    }  # fmt: skip

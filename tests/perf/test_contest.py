"""The contenders of the contest of speed do the same work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from patchprint.ops.sampling import ImagePyramids, cut_patches
from patchprint.pipelines import bench
from patchprint.pipelines.bench import PATCH_SCALE, PATCH_SIDE, BenchImages, read_images
from perf.speed.contest import STAGES, Contest, _stages, _training, growth, open_images, save_images
from perf.speed.contest.__main__ import contest

CPU = torch.device("cpu")
MODEL = "hardnet.small"


@pytest.fixture(scope="module")
def data() -> BenchImages:
    return read_images(None, count=2, megapixels=0.05, keypoints=40)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call in a measurement, and small batches."""
    monkeypatch.setattr(bench, "SHORTEST", 0.0)
    monkeypatch.setattr(bench, "PAUSE", 0.0)
    monkeypatch.setattr(_training, "pairs_on", lambda device: 4)


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "limits"])
def test_a_stage_is_timed(stage: str, data: BenchImages) -> None:
    scores = contest(data, [stage], [MODEL], [], rounds=1, device="cpu").scores
    contenders = scores[stage]["contenders"]
    assert len(contenders) > 3 and not set(contenders) & set(scores["left_out"])
    compared = [each["times_faster"] for name, each in contenders.items() if name.startswith("patchprint")]
    assert any(compared), "nobody is compared with anybody"


def test_all_who_cut_patches_cut_the_same(data: BenchImages) -> None:
    """At keypoints whose patches are not smaller than they are in the image: OpenCV has no pyramid."""
    image, found = data.images[0], data.keypoints[0]
    small = found[found.scale * PATCH_SCALE < PATCH_SIDE]
    assert len(small) > 5
    tasks = _stages.sampling(Contest(BenchImages("", [image], [small], 0), CPU, (), ())).tasks
    ours = cut_patches(ImagePyramids.build([image]), 0, small, PATCH_SCALE, PATCH_SIDE)[:, 0]
    cut: dict[str, Any] = {name: task() for name, task in tasks.items()}
    assert float((cut["kornia"][0, :, 0] - ours).abs().mean()) < 0.01
    assert float((torch.from_numpy(cut["OpenCV warpAffine"]) / 255 - ours).abs().mean()) < 0.01


def test_all_who_match_find_the_same_pairs(data: BenchImages) -> None:
    found: dict[str, Any] = {name: task() for name, task in _stages.matching(Contest(data, CPU, (), ())).tasks.items()}
    ours = found["patchprint, floats"].indices.tolist()
    assert ours and found["FAISS, floats"].indices.tolist() == ours
    assert found["kornia, floats"][1].tolist() == ours
    assert sorted([m.queryIdx, m.trainIdx] for m in found["OpenCV BFMatcher, floats"]) == ours


def test_whoever_is_not_installed_is_named(data: BenchImages, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("kornia", "kornia.feature", "pycolmap"):
        monkeypatch.setitem(sys.modules, missing, None)
    scores = contest(data, ["photo"], [MODEL], ["auto"], rounds=1, device="cpu").scores
    assert {"OpenCV SIFT", "OpenCV ORB", f"patchprint {MODEL}"} <= set(scores["photo"]["contenders"])
    assert {"kornia HardNet", "COLMAP SIFT"} <= set(scores["left_out"])


def test_growth_is_measured_upwards_on_images_of_a_file(data: BenchImages, tmp_path: Path) -> None:
    save_images(data, tmp_path / "images.npz")
    again = open_images(tmp_path / "images.npz")
    assert again.facts() == data.facts()
    rows = growth(again, [MODEL], counts=(30, 10), device="cpu").scores[MODEL]["rows"]
    assert [row["keypoints"] for row in rows] == [10, 30]
    assert all(row["seconds"] > 0 and row["peak_mib"] > 50 for row in rows)

"""The contenders of the contest of speed do the same work."""

from typing import Any

import pytest
import torch

from patchprint.ops.sampling import ImagePyramids, cut_patches
from patchprint.pipelines.bench import PATCH_SCALE, PATCH_SIDE, BenchImages, BenchSettings, read_images
from perf.speed.contest import Contest, _stages

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data() -> BenchImages:
    return read_images(BenchSettings(megapixels=0.05, max_keypoints=40))


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
    assert ours and found["FAISS, floats"].tolist() == [row for row, _ in ours]
    assert found["kornia, floats"][1].tolist() == ours
    assert sorted([m.queryIdx, m.trainIdx] for m in found["OpenCV BFMatcher, floats"]) == ours

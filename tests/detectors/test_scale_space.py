"""`dog` on a GPU finds what OpenCV finds: the operations here on the CPU, the kernels on a GPU or interpreted."""

import dataclasses

import numpy as np
import pytest
import torch

from patchprint import detectors
from patchprint.common import devices
from patchprint.common.types import Keypoints
from patchprint.detectors import DETECTORS, _tiles, candidates, detect, dog, select
from patchprint.interop.images import read_gray
from perf.speed.on_gpu._common import found_again
from support import kernels
from support.checkout import SHARED
from support.known_images import texture

CPU = torch.device("cpu")


def check_same(image: np.ndarray, name: str = "dog", least: float = 0.98) -> None:
    of_opencv = DETECTORS[name].find(image, None, None)
    find_on_gpu = DETECTORS[name].find_on_gpu
    assert find_on_gpu is not None
    ours = find_on_gpu(image, None, None, CPU)
    assert len(of_opencv) > 50
    assert found_again(of_opencv, ours) >= least
    assert found_again(ours, of_opencv) >= least
    assert ours.score is not None and of_opencv.score is not None
    assert (ours.score.diff() <= 0).all()
    strongest = slice(0, 50)
    assert torch.allclose(ours.score[strongest], of_opencv.score[strongest], rtol=1e-3)


@pytest.mark.parametrize("name", ["dog", "dog-published"])
def test_the_keypoints_are_those_of_opencv(name: str) -> None:
    check_same(texture(241, 260), name, least=0.99)


@pytest.mark.parametrize(
    "name", ["oxford/graf/img1.png", "oxford/boat/img4.png", "eth/fountain/images", "eth/herzjesu/images"]
)
def test_the_keypoints_are_those_of_opencv_in_real_images(name: str) -> None:
    path = SHARED / "data" / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    image = read_gray(min(path.iterdir()) if path.is_dir() else path)
    check_same(np.ascontiguousarray(image[-400:, :600]), least=0.99)


@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (5, 5), (11, 30), (12, 7)])
def test_small_images(shape: tuple[int, int]) -> None:
    assert len(dog.find_dog_on_gpu(texture(40, 40)[: shape[0], : shape[1]].copy(), None, None, CPU)) <= 20


def test_a_mask_is_heeded() -> None:
    image = texture()
    mask = np.zeros_like(image)
    mask[:, 130:] = 1
    found = dog.find_dog_on_gpu(image, None, mask, CPU)
    assert 50 < len(found) < len(dog.find_dog_on_gpu(image, None, None, CPU))
    assert found.xy[:, 0].min() > 129


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "tiles"])
@pytest.mark.parametrize("upright", [False, True])
def test_a_gpu_is_used_by_detect(whole: bool, upright: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, with the operations on the CPU."""
    used: list[str] = []

    def find_there(image: np.ndarray, count: int | None, mask: np.ndarray | None, device: torch.device) -> Keypoints:
        used.append(device.type)
        return dog.find_dog_on_gpu(image, count, mask, CPU)

    image = texture(300, 340)
    mask = np.zeros_like(image)
    mask[:, :200] = 1
    monkeypatch.setattr(_tiles, "WHOLE", _tiles.WHOLE if whole else 50_000)
    monkeypatch.setattr(_tiles, "TILE", 256)
    expected = detect(image, max_keypoints=120, mask=mask, upright=upright)
    there = dataclasses.replace(DETECTORS["dog"], find_on_gpu=find_there)
    monkeypatch.setattr(detectors, "check_detector", lambda detector, max_keypoints: there)
    monkeypatch.setattr(devices, "_has_triton", lambda: False)
    assert torch.equal(detect(image, max_keypoints=120, mask=mask, upright=upright, device="cuda:0").xy, expected.xy)
    assert used == []
    monkeypatch.setattr(devices, "_has_triton", lambda: True)
    found = detect(image, max_keypoints=120, mask=mask, upright=upright, device="cuda:0")
    assert set(used) == {"cuda"} and len(used) == (1 if whole else 5)
    assert len(found) == len(expected) == 120 and found.xy[:, 0].max() < 201
    assert found_again(found, expected) > 0.97 and found_again(expected, found) > 0.97


def test_spreading_takes_the_strongest_of_each_cell() -> None:
    """Compared with a loop over the keypoints."""
    found, size, count = detect(texture(300, 200), max_keypoints=None), (200, 300), 160
    assert len(found) > 3 * count
    cells, held, chosen = 3, {}, []
    for number, (x, y) in enumerate(found.xy.tolist()):
        cell = min(int(x / size[0] * cells), cells - 1), min(int(y / size[1] * cells), cells - 1)
        held[cell] = held.get(cell, 0) + 1
        chosen.append((held[cell] > count // cells**2, number))
    rows = sorted(number for _, number in sorted(chosen)[:count])
    assert torch.equal(select(found, count, size).xy, found.xy[rows])
    share = {number for beyond, number in chosen if not beyond}
    assert torch.equal(candidates(found, count, size).xy, found.xy[sorted(share | set(range(count)))])


KERNELS = """
from patchprint.detectors import _scale_space, _scale_space_kernels
_scale_space_kernels._CANVAS = 16
noise = torch.randint(0, 256, (1, 1, 7, 8)).float()
contrasts = (0.02, 0.04) if device.type == "cuda" else (0.02,)
sizes = ((45, 60), (301, 400), (400, 301), (64, 64)) if device.type == "cuda" else ((37, 45),)
for size in sizes:
    image = torch.nn.functional.interpolate(noise, size=size, mode="bicubic")[0, 0].clamp(0, 255).to(torch.uint8)
    if size[0] > 300:
        image = torch.randint(0, 256, size, dtype=torch.uint8)  # so many that the buffers overflow
    for contrast in contrasts:
        expected = _scale_space.find(image, contrast, 10.0, torch.device("cpu"))
        found = _scale_space_kernels.find(image, contrast, 10.0, device).to("cpu")
        if device.type == "cuda":  # whose programs come in any order
            again = _scale_space_kernels.find(image, contrast, 10.0, device).to("cpu")
            for name in ("xy", "scale", "angle", "score"):
                assert torch.equal(getattr(found, name), getattr(again, name)), name
        assert len(expected) > 5 and abs(len(found) - len(expected)) <= 0.005 * len(expected), (len(found), len(expected))
        columns = [torch.cat([k.xy, 10 * k.scale.log()[:, None], k.angle.cos()[:, None] * 3, k.angle.sin()[:, None] * 3], 1)
                   for k in (expected, found)]
        apart = torch.cdist(*columns, compute_mode="donot_use_mm_for_euclid_dist")
        for side in (0, 1):
            assert (apart.amin(side) > 0.02).float().mean() <= 0.005, (apart.amin(side) > 0.02).sum()
        assert torch.allclose(found.score[:5], expected.score[:5], rtol=1e-3)
assert len(_scale_space_kernels.find(torch.zeros(3, 50, dtype=torch.uint8), 0.02, 10.0, device)) == 0
"""


def test_the_kernels_equal_the_operations() -> None:
    kernels.run(KERNELS)

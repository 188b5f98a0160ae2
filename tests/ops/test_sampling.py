"""The sampler against kornia, against exact quarter turns, and at the edges of its input."""

import math

import numpy as np
import pytest
import torch

from patchprint.common.types import Keypoints
from patchprint.ops.sampling import ImagePyramids, cut_patches, lazy_patches, sample_patches

skimage_data = pytest.importorskip("skimage.data", reason="scikit-image ships the photographs used here")


def gray(name: str) -> np.ndarray:
    image = getattr(skimage_data, name)()
    return image if image.ndim == 2 else image[..., :3].mean(-1).round().astype(np.uint8)


def random_keypoints(image: np.ndarray, count: int, seed: int = 0) -> Keypoints:
    generator = torch.Generator().manual_seed(seed)
    height, width = image.shape
    return Keypoints(
        xy=torch.rand(count, 2, generator=generator) * torch.tensor([width - 1.0, height - 1.0]),
        scale=0.8 * torch.exp(3.0 * torch.rand(count, generator=generator)),
        angle=(2 * torch.rand(count, generator=generator) - 1) * math.pi,
    )


@pytest.mark.parametrize("name", ["camera", "astronaut", "coffee", "coins"])
def test_agrees_with_kornia_on_imagegraphs(name: str) -> None:
    kornia_feature = pytest.importorskip("kornia.feature")
    image = gray(name)
    keypoints = random_keypoints(image, 500)
    ours = cut_patches(ImagePyramids.build([image]), 0, keypoints, patch_scale=12.0, size=32)
    lafs = torch.cat([keypoints.frames() * 6.0, keypoints.xy[:, :, None]], dim=-1)[None]
    theirs = kornia_feature.extract_patches_from_pyramid(torch.from_numpy(image)[None, None] / 255.0, lafs, PS=32)[0]
    difference = (ours - theirs).abs().mean(dim=(1, 2, 3))
    assert difference.mean() < 0.02
    # Where both read the full-size image, nothing but rounding may differ: this pins the half pixel.
    assert difference[keypoints.scale < 1.8].max() < 1e-4


@pytest.mark.parametrize("scale", [1.5, 4.0, 11.0])
def test_quarter_turn_of_the_image_is_a_quarter_turn_of_the_frame(scale: float) -> None:
    image = gray("camera")
    turned = np.rot90(image, k=-1).copy()  # clockwise: the x axis turns towards the y axis
    xy = torch.tensor([[200.0, 150.0], [5.0, 500.0], [256.5, 255.25]])
    height = image.shape[0]
    xy_turned = torch.stack([height - 1 - xy[:, 1], xy[:, 0]], dim=1)
    angle = torch.tensor([0.3, -1.0, 2.0])
    pyramids = ImagePyramids.build([image, turned])
    plain = cut_patches(pyramids, 0, Keypoints(xy, torch.full((3,), scale), angle), 12.0, 32)
    rotated = cut_patches(pyramids, 1, Keypoints(xy_turned, torch.full((3,), scale), angle + math.pi / 2), 12.0, 32)
    # Levels are stored as bytes and a half may be rounded either way, hence one gray value of tolerance.
    assert (plain - rotated).abs().max() < 1.01 / 255
    upright = cut_patches(pyramids, 1, Keypoints(xy_turned, torch.full((3,), scale), angle), 12.0, 32)
    assert (plain - upright).abs().mean() > 0.02


def test_reads_the_pixel_it_names() -> None:
    image = np.zeros((40, 60), np.uint8)
    image[10, 20] = 255
    frame = torch.eye(2)[None] * 1.5  # three pixels wide, cut as 3 x 3: samples sit on pixel centers
    patch = sample_patches(ImagePyramids.build([image]), torch.tensor([0]), torch.tensor([[20.0, 10.0]]), frame, 3)
    expected = torch.zeros(3, 3)
    expected[1, 1] = 1.0
    assert torch.allclose(patch[0, 0], expected, atol=1e-6)


def test_affine_frames_stretch_the_patch() -> None:
    ramp = np.tile(np.arange(200, dtype=np.uint8), (200, 1))
    pyramids = ImagePyramids.build([ramp])
    affine = torch.tensor([[[4.0, 0.0], [0.0, 1.0]]])
    keypoints = Keypoints.from_affine(torch.tensor([[100.0, 100.0]]), affine)
    row = cut_patches(pyramids, 0, keypoints, patch_scale=8.0, size=16)[0, 0, 8] * 255
    assert torch.allclose(row.diff(), torch.full((15,), 2.0), atol=0.05)  # 32 pixels in 16 samples


def test_border_is_repeated_and_far_keypoints_give_patches() -> None:
    image = np.full((64, 64), 7, np.uint8)
    image[:, -1] = 200
    keypoints = Keypoints(torch.tensor([[500.0, 20.0], [-300.0, -40.0]]), torch.ones(2), torch.zeros(2))
    patches = cut_patches(ImagePyramids.build([image]), 0, keypoints, 12.0, 32) * 255
    assert torch.allclose(patches[0], torch.tensor(200.0)) and torch.allclose(patches[1], torch.tensor(7.0))


def test_many_images_of_different_sizes_equal_one_at_a_time() -> None:
    images = [gray("camera"), gray("coins"), gray("coffee")[:90, :33].copy(), np.full((9, 3), 50, np.uint8)]
    together = ImagePyramids.build(images)
    for index, image in enumerate(images):
        keypoints = random_keypoints(image, 40, seed=index)
        beside_itself = cut_patches(ImagePyramids.build([image, image]), 1, keypoints, 12.0, 32)
        assert torch.equal(cut_patches(together, index, keypoints, 12.0, 32), beside_itself)
        # A single one on a CPU is read in another way, with other roundings.
        alone = cut_patches(ImagePyramids.build([image]), 0, keypoints, 12.0, 32)
        torch.testing.assert_close(alone, beside_itself, atol=2e-4, rtol=0)


def test_large_patches_do_not_alias() -> None:
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 256, (512, 512), dtype=np.uint8)
    keypoints = Keypoints(torch.tensor([[256.0, 256.0]]), torch.tensor([20.0]), torch.tensor([0.0]))
    patch = cut_patches(ImagePyramids.build([noise]), 0, keypoints, 12.0, 32)
    assert patch.std() < 0.08  # the image's own deviation is 0.29; aliasing would keep it


@pytest.mark.parametrize("most", [7, 64])
def test_lazy_patches_are_those_of_cut_patches(most: int) -> None:
    image = gray("camera")
    keypoints = random_keypoints(image, 100)  # of several levels
    pyramids = ImagePyramids.build([image])
    rows, cuts = lazy_patches(pyramids, keypoints, 12.0, 32, most)
    parts = [cut() for cut in cuts]
    assert [len(part) for part in parts] == [most] * (100 // most) + [100 % most]
    assert sorted(rows.tolist()) == list(range(100))
    assert torch.equal(torch.cat(parts), cut_patches(pyramids, 0, keypoints, 12.0, 32)[rows])


def test_empty_and_wrong_input() -> None:
    pyramids = ImagePyramids.build([np.zeros((20, 20), np.uint8)])
    assert cut_patches(pyramids, 0, Keypoints.empty(), 12.0, 32).shape == (0, 1, 32, 32)
    for wrong in (np.zeros((20, 20, 3), np.uint8), np.zeros((20, 20), np.float32), np.zeros((0, 20), np.uint8)):
        with pytest.raises(ValueError, match="gray uint8"):
            ImagePyramids.build([wrong])
    with pytest.raises(ValueError, match="no images"):
        ImagePyramids.build([])

"""Crops, mirrors and colors of whole images."""

import colorsys

import numpy as np
import pytest
import torch

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.data import augment
from patchprint.data.image_augment import CROP_AND_FLIP, SIMCLR, ImageAugmentation, _luma, _turn_hue

KEY = rng.key(3)


def wide(count=4000):
    """Images half as wide again as high, two views each."""
    return torch.tensor([1.5, 1.0]).expand(count, 2, 2)


def test_crops_lie_inside_and_cover_the_published_areas_and_ratios():
    warp = CROP_AND_FLIP.warp(KEY, wide())
    size, center = warp[..., :2].diagonal(dim1=-2, dim2=-1).abs(), warp[..., 2]
    assert (center.abs() + size <= wide() + 1e-5).all()
    area = size.prod(-1) / 1.5
    assert 0.16 < area.min() < 0.18
    assert 0.9 < area.max() <= 1.0
    ratio = size[..., 0] / size[..., 1]
    assert ratio.min() > 0.75 - 1e-5
    # A crop of nearly all of the image is cut to its sides.
    free = ratio[area < 0.5]
    assert free.max() < 4 / 3 + 1e-5


def test_each_image_is_mirrored_alone():
    mirrored = CROP_AND_FLIP.warp(KEY, wide())[..., 0, 0] < 0
    assert 0.45 < mirrored.float().mean() < 0.55
    assert 0.4 < (mirrored[:, 0] == mirrored[:, 1]).float().mean() < 0.6
    assert not (ImageAugmentation(flip=False).warp(KEY, wide())[..., 0, 0] < 0).any()


def test_everything_is_a_function_of_the_key():
    images = torch.rand(8, 2, 3, 6, 6)
    assert torch.equal(SIMCLR.light(KEY, images), SIMCLR.light(KEY, images))
    assert not torch.equal(SIMCLR.light(KEY, images), SIMCLR.light(rng.key(4), images))
    assert torch.equal(SIMCLR.warp(KEY, wide()), SIMCLR.warp(KEY, wide()))


def test_colors_change_for_four_of_five_and_stay_in_range():
    images = torch.full((2000, 1, 3, 2, 2), 0.4) + torch.tensor([0.3, 0.0, -0.2])[:, None, None]
    changed = ImageAugmentation(colors=0.5).light(KEY, images)
    assert changed.min() >= 0
    assert changed.max() <= 1
    same = (changed == images).flatten(1).all(1).float().mean()
    assert 0.17 < same < 0.23


def test_gray_images_have_one_value_in_all_channels():
    images = torch.rand(2000, 1, 3, 2, 2)
    faded = ImageAugmentation(gray=0.2).light(KEY, images)
    is_gray = (faded.std(-3) < 1e-6).flatten(1).all(1)
    assert 0.17 < is_gray.float().mean() < 0.23
    torch.testing.assert_close(faded[is_gray][:, :, :1], _luma(images[is_gray]))


def test_the_hue_turns_as_colorsys_has_it():
    color = torch.tensor([0.5, 0.4, 0.3])
    turn = 0.6
    y, i, q = colorsys.rgb_to_yiq(*color.tolist())
    cos, sin = np.cos(turn), np.sin(turn)
    expected = colorsys.yiq_to_rgb(y, cos * i - sin * q, sin * i + cos * q)
    found = _turn_hue(color[:, None, None], torch.tensor(turn))
    # colorsys rounds its matrices to two digits.
    np.testing.assert_allclose(found.flatten().numpy(), expected, atol=0.01)
    torch.testing.assert_close(_turn_hue(color[:, None, None], torch.tensor(0.0))[:, 0, 0], color)
    gray = torch.full((3, 1, 1), 0.3)
    torch.testing.assert_close(_turn_hue(gray, torch.tensor(1.0)), gray, atol=1e-5, rtol=0)


def test_presets_are_for_patches_or_for_images():
    with pytest.raises(UserError, match="for gray patches; for whole images there is crop-flip, simclr"):
        augment.create("photos", channels=3)
    with pytest.raises(UserError, match="for whole images; for gray patches there is none, l2net"):
        augment.create("simclr")
    assert augment.create("none", channels=3) is augment.create("none")

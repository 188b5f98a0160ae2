"""Augmentation: what is drawn per point and per view, within its limits, and the same for the same key."""

import colorsys

import cv2
import numpy as np
import pytest
import torch

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.data import augment
from patchprint.data.augment import (
    PRESETS,
    Augmentation,
    ImageAugmentation,
    _luma,
    _turn_hue,
    blur,
    change_light,
    create,
    jpeg,
)
from support.known_images import texture

KEY = rng.key(0, 7)
CROP_AND_FLIP, SIMCLR = PRESETS["crop-flip"], PRESETS["simclr"]
SIGNED_PERMUTATIONS = {
    (a, b, c, d)
    for a in (-1, 0, 1)
    for b in (-1, 0, 1)
    for c in (-1, 0, 1)
    for d in (-1, 0, 1)
    if abs(a * d - b * c) == 1 and abs(a) + abs(b) == 1 and abs(c) + abs(d) == 1
}


def joint_maps(preset):
    return joint_maps_of(create(preset))


def joint_maps_of(augmentation, count=4000):
    warp = augmentation.warp(KEY, torch.ones(count, 2, 2))
    assert torch.equal(warp[:, 0], warp[:, 1]), "turns and flips belong to the point, not to the view"
    maps, shares = torch.unique(warp[:, 0, :, :2].flatten(1), dim=0, return_counts=True)
    return {tuple(map(int, m)): float(n) / count for m, n in zip(maps, shares, strict=True)}


@pytest.mark.parametrize("preset", sorted(name for name, preset in PRESETS.items() if preset.channels == 1))
def test_presets_give_finite_maps_and_patches_and_repeat(preset):
    augmentation = create(preset)
    warp = augmentation.warp(KEY, torch.ones(50, 3, 2))
    assert warp.shape == (50, 3, 2, 3) and warp.isfinite().all()
    assert torch.equal(warp, augmentation.warp(KEY, torch.ones(50, 3, 2)))
    patches = (
        torch.from_numpy(texture(96, 96)).float().unfold(0, 32, 16).unfold(1, 32, 16).reshape(-1, 1, 1, 32, 32) / 255
    )
    lit = augmentation.light(KEY, patches)
    assert lit.shape == patches.shape and lit.isfinite().all()
    assert float(lit.min()) >= 0.0 and float(lit.max()) <= 1.0
    changes_light = preset in (
        "photos",
        "strong",
        "wide",
        "wider",
        "relit",
        "closer",
        "closer-relit",
    )  # ours; those of the papers leave the light alone
    assert torch.equal(lit, patches) != changes_light


def test_closer_shows_half_of_the_points_in_smaller_patches_and_moves_them_no_less():
    near = Augmentation(closer=2.0, shift=0.1).warp(KEY, torch.ones(4000, 2, 2))
    far = Augmentation(shift=0.1).warp(KEY, torch.ones(4000, 2, 2))
    octaves = -torch.log2(near[..., 0, 0].abs())
    assert torch.equal(octaves[:, 0], octaves[:, 1]), "both views of a point show as much"
    assert torch.equal(near[..., 2], far[..., 2]), "the detector's error of place does not shrink with the patch"
    smaller = octaves[:, 0] > 0
    assert abs(float(smaller.float().mean()) - 0.5) < 0.03
    assert octaves.max() <= 2.0 and abs(float(octaves[smaller].mean()) - 1.0) < 0.05


def test_joint_shares_are_those_of_the_papers():
    assert set(joint_maps("none")) == {(1, 0, 0, 1)}
    hardnet = joint_maps("hardnet")
    assert len(hardnet) == 4 and all(abs(share - 0.25) < 0.03 for share in hardnet.values())
    assert (0, 1, 1, 0) in hardnet, "a transposed patch"
    for preset in ("l2net", "doap", "cdf"):
        shares = joint_maps(preset)
        assert set(shares) == SIGNED_PERMUTATIONS and all(abs(share - 0.125) < 0.03 for share in shares.values())
    hynet = joint_maps("hynet")
    assert abs(hynet[(1, 0, 0, 1)] - 0.25) < 0.03
    assert abs(hynet[(1, 0, 0, -1)] - 0.25) < 0.03
    assert set(hynet) == SIGNED_PERMUTATIONS
    turns = joint_maps_of(Augmentation(turns="uniform"))
    assert set(turns) == {(1, 0, 0, 1), (0, -1, 1, 0), (-1, 0, 0, -1), (0, 1, -1, 0)}
    assert all(abs(share - 0.25) < 0.03 for share in turns.values())
    sdgmnet = joint_maps_of(Augmentation(flips="either"))
    assert {m: round(s * 3) for m, s in sdgmnet.items()} == {(1, 0, 0, 1): 1, (-1, 0, 0, 1): 1, (1, 0, 0, -1): 1}


def test_small_changes_differ_between_views_and_stay_inside():
    small = Augmentation(rotation=5.0, crop=0.9, crop_ratio=(0.9, 1.1))
    warp = small.warp(KEY, torch.ones(2000, 2, 2))
    assert not torch.equal(warp[:, 0], warp[:, 1])
    linear = warp[..., :2]
    angle = torch.atan2(linear[..., 1, 0], linear[..., 0, 0]).rad2deg()
    assert 4.5 < float(angle.abs().max()) <= 5.0001
    area = torch.linalg.det(linear)
    assert float(area.min()) > 0.88 and float(area.max()) <= 1.0001
    unturned = Augmentation(crop=0.9, crop_ratio=(0.9, 1.1)).warp(KEY, torch.ones(2000, 2, 2))
    corners = unturned[..., :2] @ torch.tensor([[1.0, -1.0], [1.0, -1.0]]) + unturned[..., 2:]
    assert float(corners.abs().max()) <= 1.0001


def test_scale_shear_and_shift_stay_in_their_ranges():
    warp = Augmentation(scale=0.3, shear=0.2, shift=0.1).warp(KEY, torch.ones(2000, 2, 2))
    singular = torch.linalg.svdvals(warp[..., :2])
    octaves = torch.log2(singular.prod(-1).sqrt())
    assert 0.28 < float(octaves.max()) < 0.3001 and -0.3001 < float(octaves.min()) < -0.28
    stretch = (singular[..., 0] / singular[..., 1]).sqrt()
    assert 1.18 < float(stretch.max()) < 1.2001
    assert 0.095 < float(warp[..., 2].abs().max()) <= 0.1


def test_rows_of_one_point_are_turned_alike():
    point = torch.arange(300) // 3
    warp = Augmentation(turns="uniform", flips="horizontal").warp(KEY, torch.ones(300, 1, 2), point)
    assert torch.equal(warp[0::3], warp[1::3]) and torch.equal(warp[0::3], warp[2::3])
    assert len(warp.unique(dim=0)) == 8
    small = Augmentation(rotation=5.0).warp(KEY, torch.ones(300, 1, 2), point)
    assert len(small.unique(dim=0)) == 300, "what is drawn for each patch still is"


def test_blur_is_gaussian():
    patch = texture(32, 32, seed=1)
    expected = cv2.GaussianBlur(patch.astype(np.float32) / 255, (7, 7), 1.0, borderType=cv2.BORDER_REPLICATE)
    patches = torch.from_numpy(patch)[None, None].float() / 255
    assert np.allclose(blur(patches, torch.tensor([1.0]))[0, 0].numpy(), expected, atol=1e-5)
    torch.testing.assert_close(blur(patches, torch.tensor([0.0])), patches)


@pytest.mark.parametrize("quality", [10, 30, 75, 95])
def test_jpeg_is_near_a_real_encoder(quality):
    rough = np.random.default_rng(0).normal(0, 25, (32, 32))
    patch = np.clip(texture(32, 32, seed=1) + rough, 0, 255).astype(np.uint8)
    real = cv2.imdecode(cv2.imencode(".jpg", patch, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_GRAYSCALE)
    ours = jpeg(torch.from_numpy(patch)[None, None].float() / 255, torch.tensor([float(quality)]))[0, 0] * 255
    loss = np.abs(real.astype(float) - patch).mean()
    assert np.abs(ours.numpy() - real).mean() < 0.1 * loss + 0.6


def test_jpeg_of_a_side_that_is_not_a_multiple_of_eight():
    patches = torch.rand(3, 1, 29, 29, generator=torch.Generator().manual_seed(0))
    assert jpeg(patches, torch.full((3,), 90.0)).shape == patches.shape


def test_other_light_is_of_each_image_and_as_strong_as_asked_for():
    image = torch.from_numpy(texture(60, 76)).float()[None, None].expand(40, -1, -1, -1) / 255
    lit = change_light(image, KEY)
    assert lit.shape == image.shape and float(lit.min()) >= 0 and float(lit.max()) <= 1
    torch.testing.assert_close(change_light(image[30:], KEY, first=30), lit[30:])
    assert (change_light(image, KEY, 0.0) - image).abs().max() < 0.02
    alike = [np.corrcoef(each.flatten(), image[0].flatten())[0, 1] for each in lit]
    mild = [np.corrcoef(each.flatten(), image[0].flatten())[0, 1] for each in change_light(image, KEY, 0.3)]
    assert min(alike) < 0 < np.median(alike) < np.median(mild)


def test_relit_shows_so_many_views_in_other_light():
    patches = torch.from_numpy(texture(32, 32)).float().expand(200, 2, 1, -1, -1) / 255
    lit = Augmentation(relit=0.25).light(KEY, patches)
    assert 0.2 < float((lit != patches).flatten(2).any(2).float().mean()) < 0.3


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

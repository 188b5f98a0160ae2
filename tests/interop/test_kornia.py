"""Local affine frames of kornia and our keypoints."""

import math

import cv2
import kornia.feature as KF
import numpy as np
import pytest
import torch

from patchprint.common.types import Keypoints
from patchprint.interop import kornia
from patchprint.ops.sampling import ImagePyramids, cut_patches
from support.known_images import texture


def test_lafs_cut_the_patches_that_our_sampler_cuts() -> None:
    image = cv2.GaussianBlur(texture(), (0, 0), 2)
    rng = np.random.default_rng(0)
    xy = torch.from_numpy(rng.uniform(70, 170, (40, 2)))
    round_ones = Keypoints(xy, torch.from_numpy(rng.uniform(2.5, 5, 40)), torch.from_numpy(rng.uniform(-3, 3, 40)))
    sheared = Keypoints.from_affine(xy, round_ones.frames() @ torch.tensor([[1.2, 0.3], [0.0, 0.9]]))
    pixels = torch.from_numpy(image)[None, None].float() / 255
    for keypoints in (round_ones, sheared):
        theirs = KF.extract_patches_from_pyramid(pixels, kornia.to_lafs(keypoints, mr_size=6.0), PS=32)[0]
        ours = cut_patches(ImagePyramids.build([image]), 0, keypoints, patch_scale=12.0, size=32)
        assert (theirs - ours).abs().mean() < 0.02
        assert torch.allclose(kornia.from_lafs(kornia.to_lafs(keypoints)).frames(), keypoints.frames(), atol=1e-5)


def test_kornia_orientation_numbers_are_the_negated_angles() -> None:
    keypoints = Keypoints(torch.zeros(1, 2), torch.tensor([2.0]), torch.tensor([0.4]))
    lafs = kornia.to_lafs(keypoints, mr_size=6.0)
    assert float(KF.get_laf_orientation(lafs)) == pytest.approx(-math.degrees(0.4), abs=1e-3)
    assert float(KF.get_laf_scale(lafs)) == pytest.approx(12.0, abs=1e-3)

"""Every detector and every converter against pictures whose keypoints are known: position, scale, angle."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import kornia.feature as KF
import numpy as np
import pytest
import torch

from patchprint.detectors import DETECTORS, detect, harris
from patchprint.interop import colmap, kornia, opencv
from patchprint.patches.sampler import ImagePyramids, cut_patches
from patchprint.types import Keypoints, wrap_angle
from support.known_images import blob, corner, correspondences, crossing, lopsided_blob, texture, turned

BLOB_DETECTORS = [name for name, detector in DETECTORS.items() if detector.finds == "blobs"]
CORNER_DETECTORS = [name for name, detector in DETECTORS.items() if detector.finds == "corners"]


@pytest.mark.parametrize("detector", BLOB_DETECTORS)
@pytest.mark.parametrize(("x", "y", "sigma"), [(100.0, 80.0, 4.0), (90.0, 70.0, 7.0)])
def test_a_blob_is_found_where_it_is(detector: str, x: float, y: float, sigma: float) -> None:
    found = detect(blob(x, y, sigma), detector)
    offset = found.xy - torch.tensor([x, y])
    nearest = offset.norm(dim=1).argmin()
    assert offset[nearest].abs().max() < 0.05
    assert 0.8 < float(found.scale[nearest]) / sigma < 1.2


@pytest.mark.parametrize("detector", CORNER_DETECTORS)
@pytest.mark.parametrize("make", [crossing, corner])
def test_a_corner_is_found_where_it_is(detector: str, make: Callable[[int, int], np.ndarray]) -> None:
    found = detect(make(101, 81), detector)
    distance = (found.xy - torch.tensor([100.5, 80.5])).abs().max(1).values
    level_pixel = found.scale / harris.SIGMA
    assert distance[level_pixel < 1.1].min() < 0.3
    assert len(found.scale[distance < 0.3 * level_pixel].unique()) >= 5  # and again in coarser levels


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("degrees", [20, -70])
def test_angles_turn_with_the_picture(detector: str, degrees: float) -> None:
    image = texture(180, 200)
    rotated, matrix = turned(image, degrees)
    a, b = detect(image, detector, 400), detect(rotated, detector, 400)
    i, j = correspondences(a, b, matrix)
    assert len(i) > 40
    difference = wrap_angle(b.angle[j] - a.angle[i] - math.radians(degrees)).abs()
    assert (difference < math.radians(12)).float().mean() > 0.6


@pytest.mark.parametrize("detector", DETECTORS)
def test_scales_grow_with_the_picture(detector: str) -> None:
    image = cv2.GaussianBlur(texture(180, 200), (0, 0), 2)
    larger, matrix = turned(image, 0, zoom=1.5)
    a, b = detect(image, detector, 300), detect(larger, detector, 300)
    i, j = correspondences(a, b, matrix)
    if detector in CORNER_DETECTORS:  # searched at fixed levels, so only the area of the frame is tied to the level
        levels = torch.log(detect(image, detector, 300).scale / harris.SIGMA) / math.log(2**0.5)
        assert (levels - levels.round()).abs().max() < 0.1
    else:
        assert float((b.scale[j] / a.scale[i]).median()) == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize("detector", BLOB_DETECTORS)
@pytest.mark.parametrize("degrees", [30, 120, -100])
def test_angle_points_to_the_brighter_side(detector: str, degrees: float) -> None:
    found = detect(lopsided_blob(degrees), detector)
    central = found[(found.xy - 79.5).norm(dim=1) < 6]
    error = wrap_angle(central.angle - math.radians(degrees)).abs()
    assert len(central)
    assert error.min() < math.radians(15)


def test_opencv_round_trip_and_meaning() -> None:
    raw = cv2.KeyPoint(x=10.25, y=20.5, size=8.0, angle=90.0, response=0.5, octave=0)
    keypoints = opencv.to_keypoints([raw])
    assert keypoints.xy.tolist() == [[10.25, 20.5]]
    assert float(keypoints.scale) == 4.0
    assert float(keypoints.angle) == pytest.approx(math.pi / 2)
    back = opencv.from_keypoints(keypoints)[0]
    assert (back.pt, back.size, back.response) == (raw.pt, raw.size, raw.response)
    assert back.angle == pytest.approx(raw.angle, abs=1e-4)
    assert float(opencv.to_keypoints([cv2.KeyPoint(1, 2, 3)]).angle) == 0  # -1 means none


def test_octaves_are_those_that_opencv_packs() -> None:
    sift = cv2.SIFT_create(enable_precise_upscale=True)
    found = sift.detect(texture())
    ours = opencv.sift_octaves(np.array([k.size / 2 for k in found]))
    assert (ours == np.array([k.octave & 0xFFFF for k in found])).mean() > 0.98


def test_sift_descriptors_equal_opencvs_own() -> None:
    image = texture()
    found, expected = cv2.SIFT_create(enable_precise_upscale=True).detectAndCompute(image, None)
    ours = opencv.sift_descriptors(image, opencv.to_keypoints(found))
    cosine = (ours * opencv.normalize_sift(expected, root=False)).sum(1)
    assert np.quantile(cosine, 0.02) > 0.999


def test_colmap_matrix_round_trip_and_meaning() -> None:
    pycolmap = colmap.pycolmap
    keypoints = Keypoints(torch.tensor([[10.0, 20.0]]), torch.tensor([3.0]), torch.tensor([0.7]))
    matrix = colmap.from_keypoints(keypoints)
    assert matrix[0, :2].tolist() == [10.5, 20.5]
    theirs = pycolmap.FeatureKeypoint(
        **dict(zip(["x", "y", "a11", "a12", "a21", "a22"], matrix[0].tolist(), strict=True))
    )
    assert theirs.compute_scale() == pytest.approx(3.0, abs=1e-5)
    assert theirs.compute_orientation() == pytest.approx(0.7, abs=1e-5)
    for columns in (matrix, np.array([[10.5, 20.5, 3.0, 0.7]])):
        back = colmap.to_keypoints(columns)
        assert torch.allclose(back.xy, keypoints.xy)
        assert torch.allclose(back.frames(), keypoints.frames(), atol=1e-5)
    assert colmap.to_keypoints(np.array([[1.5, 2.5]])).xy.tolist() == [[1.0, 2.0]]
    sheared = Keypoints.from_affine(torch.zeros(1, 2), torch.tensor([[[3.0, 1.0], [0.5, 2.0]]]))
    assert torch.allclose(colmap.to_keypoints(colmap.from_keypoints(sheared)).frames(), sheared.frames())


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

"""SIFT of keypoints and of patches, against OpenCV itself."""

import cv2
import numpy as np
import torch

from patchprint.features import load
from patchprint.interop import opencv
from support.known_images import texture


def test_patches_are_described_as_in_the_toolbox_of_hpatches() -> None:
    """One keypoint in the middle of a patch of 65 pixels, 12.257 wide, first octave, its angle unset."""
    patches = np.stack([texture(65, 65, seed) for seed in range(3)])
    keypoint = cv2.KeyPoint(x=32.5, y=32.5, size=2 * 32.5 / 5.303, angle=-1, octave=0)
    expected = np.concatenate([cv2.SIFT_create().compute(patch, [keypoint])[1] for patch in patches])
    ours, root, smoothed = (
        load(name).describe_patches(torch.from_numpy(patches)[:, None]).numpy()
        for name in ("sift", "rootsift", "sift-smoothed")
    )
    np.testing.assert_allclose(ours, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(root**2, expected / expected.sum(1, keepdims=True), atol=1e-6)
    assert ((ours * smoothed).sum(1) < 0.97).all(), "that is another descriptor"
    assert load("sift").describe_patches(torch.zeros(0, 1, 65, 65)).shape == (0, 128)


def test_octaves_are_those_that_opencv_packs() -> None:
    sift = cv2.SIFT_create(enable_precise_upscale=True)
    found = sift.detect(texture())
    ours = opencv.sift_octaves(np.array([k.size / 2 for k in found]))
    assert (ours == np.array([k.octave & 0xFFFF for k in found])).mean() > 0.98


def test_sift_descriptors_equal_opencvs_own() -> None:
    image = texture()
    found, expected = cv2.SIFT_create(enable_precise_upscale=True).detectAndCompute(image, None)
    ours = load("sift").describe_keypoints(image, found).numpy()
    cosine = (ours * opencv.normalize_sift(expected, root=False)).sum(1)
    assert np.quantile(cosine, 0.02) > 0.999

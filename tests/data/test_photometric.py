"""Changes of light: blur and JPEG against OpenCV's."""

import cv2
import numpy as np
import pytest
import torch

from patchprint.data import photometric
from support.known_images import texture


def test_blur_is_gaussian():
    patch = texture(32, 32, seed=1)
    expected = cv2.GaussianBlur(patch.astype(np.float32) / 255, (7, 7), 1.0, borderType=cv2.BORDER_REPLICATE)
    patches = torch.from_numpy(patch)[None, None].float() / 255
    assert np.allclose(photometric.blur(patches, torch.tensor([1.0]))[0, 0].numpy(), expected, atol=1e-5)
    torch.testing.assert_close(photometric.blur(patches, torch.tensor([0.0])), patches)


@pytest.mark.parametrize("quality", [10, 30, 75, 95])
def test_jpeg_is_near_a_real_encoder(quality):
    rough = np.random.default_rng(0).normal(0, 25, (32, 32))
    patch = np.clip(texture(32, 32, seed=1) + rough, 0, 255).astype(np.uint8)
    real = cv2.imdecode(cv2.imencode(".jpg", patch, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_GRAYSCALE)
    ours = (
        photometric.jpeg(torch.from_numpy(patch)[None, None].float() / 255, torch.tensor([float(quality)]))[0, 0] * 255
    )
    loss = np.abs(real.astype(float) - patch).mean()
    assert np.abs(ours.numpy() - real).mean() < 0.1 * loss + 0.6


def test_jpeg_of_a_side_that_is_not_a_multiple_of_eight():
    patches = torch.rand(3, 1, 29, 29, generator=torch.Generator().manual_seed(0))
    assert photometric.jpeg(patches, torch.full((3,), 90.0)).shape == patches.shape

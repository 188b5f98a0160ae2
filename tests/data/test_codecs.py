"""Pictures as bytes and back, with OpenCV or with Pillow alone."""

import cv2
import numpy as np
import pytest

from patchprint.data import codecs
from support.known_images import texture


@pytest.fixture(params=["opencv", "pillow"])
def decoder(request, monkeypatch):
    if request.param == "pillow":
        monkeypatch.setattr(codecs.importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("decoder")
def test_lossless_and_nearly_lossless():
    image = texture(50, 70)
    assert np.array_equal(codecs.decode_gray(codecs.encode_png(image), "a"), image)
    fine, coarse = (codecs.encode_jpeg(image, quality) for quality in (95, 20))
    assert len(coarse) < len(fine)
    assert np.abs(codecs.decode_gray(fine, "a").astype(int) - image).mean() < 2


@pytest.mark.usefixtures("decoder")
def test_colors_become_gray():
    blue = np.zeros((8, 8, 3), np.uint8)
    blue[..., 0] = 255
    gray = codecs.decode_gray(cv2.imencode(".png", blue)[1].tobytes(), "a")
    assert gray.shape == (8, 8) and gray.dtype == np.uint8
    assert abs(int(gray[0, 0]) - 29) <= 1  # 0.114 of 255


def test_a_png_keeps_red_red():
    image = np.zeros((4, 5, 3), np.uint8)
    image[..., 0], image[1, 2] = 200, (1, 2, 3)
    read = cv2.imdecode(np.frombuffer(codecs.encode_png(image), np.uint8), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(read[..., ::-1], image)


@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize("data", [b"", b"no picture", codecs.encode_png(texture(50, 70))[:40]])
def test_damage_is_named(data):
    with pytest.raises(ValueError, match=r"^b\.jpg is not a picture that can be read"):
        codecs.decode_gray(data, "b.jpg")

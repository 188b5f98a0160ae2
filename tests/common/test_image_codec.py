"""Images as bytes and back, with OpenCV or with Pillow alone."""

import cv2
import numpy as np
import pytest

from patchprint.common import image_codec as codecs
from patchprint.data import track_files
from patchprint.data.tracks import TrackStore
from patchprint.interop.image_files import read_gray
from support.known_images import texture
from support.synthetic_tracks import plane_tracks


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
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"no image", "is not an image that can be read"),
        (codecs.encode_png(texture(50, 70))[:40], "is cut short"),
        (codecs.encode_png(texture(50, 70))[:40] + b"IEND", "is not an image that can be read"),
    ],
)
def test_damage_is_named(data, words):
    with pytest.raises(ValueError, match=rf"^b\.jpg {words}"):
        codecs.decode_gray(data, "b.jpg")


@pytest.mark.usefixtures("decoder")
def test_training_and_use_read_the_same_pixels(tmp_path):
    """Images of 12 bits in 16 were far darker in training than in use."""
    photos, tracks = plane_tracks()
    images = [photo.astype(np.uint16) << 4 for photo in photos]
    for number, image in enumerate(images):
        cv2.imwrite(str(tmp_path / f"{number}.png"), image)
    encoded = [(tmp_path / f"{number}.png").read_bytes() for number in range(len(images))]
    track_files.write(tmp_path / "store", encoded, tracks, track_files.Names.numbered(len(images), 1))
    store = TrackStore.open(tmp_path / "store")
    for number in range(len(images)):
        assert np.array_equal(store.images.pixels(number), read_gray(tmp_path / f"{number}.png"))

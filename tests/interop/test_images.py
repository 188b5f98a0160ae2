"""Images of every kind, good and bad, as people have them."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from patchprint.data import track_files
from patchprint.data.tracks import TrackStore
from patchprint.interop.images import (
    decode_color,
    decode_gray,
    encode_image,
    find_mask,
    image_size,
    list_images,
    read_color,
    read_gps,
    read_gray,
    read_header_size,
)
from support.known_images import texture
from support.synthetic_tracks import plane_tracks


@pytest.fixture
def image() -> np.ndarray:
    return texture(60, 80)


def test_png_is_read_exactly(tmp_path: Path, image: np.ndarray) -> None:
    path = tmp_path / "na\u00efve \u753b\u50cf.png"  # letters outside of ASCII and a space
    Image.fromarray(image).save(path)
    assert np.array_equal(read_gray(path), image)
    link = tmp_path / "link.png"
    link.symlink_to(path)
    assert np.array_equal(read_gray(link), image)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "P", "1", "CMYK"])
def test_color_palette_alpha_cmyk(tmp_path: Path, image: np.ndarray, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.fromarray(image).convert("RGB").convert(mode).save(path)
    read = read_gray(path)
    assert read.shape == image.shape
    assert read.dtype == np.uint8
    tolerance = {"1": 130, "P": 16}.get(mode, 4)  # black and white; 216 colors
    assert np.abs(read.astype(int) - image).mean() < tolerance
    assert read_color(path).shape == (*image.shape, 3)


def test_sixteen_bits_keep_the_bits_in_use(tmp_path: Path, image: np.ndarray) -> None:
    for shift in (8, 4):  # all sixteen, and twelve as cameras store them
        cv2.imwrite(str(tmp_path / "a.png"), image.astype(np.uint16) << shift)
        assert np.array_equal(read_gray(tmp_path / "a.png"), image)


def test_training_and_use_read_the_same_pixels(tmp_path: Path) -> None:
    """Images of 12 bits in 16 were far darker in training than in use."""
    images, tracks = plane_tracks()
    for number, image in enumerate(images):
        cv2.imwrite(str(tmp_path / f"{number}.png"), image.astype(np.uint16) << 4)
    encoded = [(tmp_path / f"{number}.png").read_bytes() for number in range(len(images))]
    track_files.write(tmp_path / "store", encoded, tracks, track_files.Names.numbered(len(images), 1))
    store = TrackStore.open(tmp_path / "store")
    for number in range(len(images)):
        assert np.array_equal(store.images.pixels(number), read_gray(tmp_path / f"{number}.png"))


def test_exif_orientation_is_an_option(tmp_path: Path, image: np.ndarray) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned clockwise by 90 degrees
    Image.fromarray(image).save(tmp_path / "a.jpg", exif=exif, quality=95)
    assert read_gray(tmp_path / "a.jpg").shape == (60, 80)
    upright = read_gray(tmp_path / "a.jpg", exif=True)
    assert upright.shape == (80, 60)
    assert np.abs(upright.astype(int) - np.rot90(image, -1)).mean() < 5


def test_arrays(image: np.ndarray) -> None:
    pillow = Image.fromarray(image)
    for same in (image, image[..., None], torch.from_numpy(image), image / 255.0, np.stack([image] * 3, -1), pillow):
        read = read_gray(same)  # type: ignore[arg-type]
        assert np.array_equal(read, image)
        assert read.flags.writeable  # torch warns of arrays that are not, as those of Pillow
    assert set(np.unique(read_gray(image > 128))) == {0, 255}
    rgb = np.stack([image, 255 - image, image.T[:60].repeat(2, 1)[:, :80]], -1)
    planar = torch.from_numpy(rgb).permute(2, 0, 1)
    assert np.array_equal(read_gray(planar), read_gray(rgb)) and np.array_equal(read_color(planar), rgb)


def test_bytes_are_decoded_as_files_and_encoded(tmp_path: Path, image: np.ndarray) -> None:
    colors = np.stack([image, image.T[:1].repeat(60, 0)[:, :1].repeat(80, 1), 255 - image], -1)
    data = encode_image(colors)
    (tmp_path / "a.png").write_bytes(data)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "a.png")), colors)
    assert np.array_equal(decode_color(data, "a"), colors) and np.array_equal(read_color(tmp_path / "a.png"), colors)
    assert np.array_equal(decode_gray(data, "a"), read_gray(tmp_path / "a.png"))
    assert np.array_equal(decode_gray(encode_image(image), "a"), image)
    fine, coarse = (encode_image(image, ".jpg", quality) for quality in (95, 20))
    assert len(coarse) < len(fine)
    assert np.abs(decode_gray(fine, "a").astype(int) - image).mean() < 2
    for bad, message in ((b"", "is empty"), (data[:100], "is cut short"), (b"hello", "is not an image")):
        with pytest.raises(ValueError, match=rf"^a\.png in b\.zip {message}"):
            decode_color(bad, "a.png in b.zip")


def test_broken_files_are_refused_in_one_sentence(
    tmp_path: Path, image: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("good.jpg", "good.png", "good.bmp"):
        Image.fromarray(image).save(tmp_path / name)
        data = (tmp_path / name).read_bytes()
        (tmp_path / f"cut-{name}").write_bytes(data[: len(data) * 2 // 3])
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "zero.jpg").touch()
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "lost.jpg").symlink_to(tmp_path / "gone.jpg")
    expected = {
        "cut-good.jpg": "cut short",
        "cut-good.png": "cut short",
        "cut-good.bmp": "not an image",
        "pipe.jpg": "no file but a pipe",
        "zero.jpg": "0 bytes",
        "text.png": "not an image",
        "folder.jpg": "folder",
        "lost.jpg": "link to nowhere",
        "none.jpg": "not there",
    }
    for name, words in expected.items():
        with pytest.raises(ValueError, match=words) as error:
            read_gray(tmp_path / name)
        assert name in str(error.value)
        assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""  # OpenCV's own lines


def test_a_thumbnail_hides_neither_a_cut_nor_the_size(tmp_path: Path, image: np.ndarray) -> None:
    Image.fromarray(image[:8, :8]).save(tmp_path / "thumb.jpg")
    exif = b"Exif\x00\x00" + (tmp_path / "thumb.jpg").read_bytes()
    Image.fromarray(image).save(tmp_path / "a.jpg", exif=exif)
    assert read_gray(tmp_path / "a.jpg").shape == image.shape
    assert image_size(tmp_path / "a.jpg") == (80, 60)
    (tmp_path / "b.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:-100])
    with pytest.raises(ValueError, match="cut short"):
        read_gray(tmp_path / "b.jpg")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((0, 5), np.uint8), "no pixels"),
        (np.zeros(5, np.uint8), "shape"),
        (np.zeros((4, 4, 2), np.uint8), "shape"),
        (np.full((4, 4), 200.0), "outside of"),
        (np.full((4, 4), np.nan), "outside of"),
        (np.zeros((4, 4), np.int64), "int64"),
        (None, "the image is None: cv2.imread"),
        (7, "the image is given as int"),
        (["a.jpg", "b.jpg"], "2 paths are given where one image is expected"),
        (torch.zeros(2, 60, 80), r"shape \(2, 60, 80\)"),
    ],
)
def test_bad_arrays(array: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_gray(array)


def test_list_images_is_sorted_and_leaves_hidden_files_out(tmp_path: Path) -> None:
    for name in ("b.JPG", "a.png", ".hidden.png", "notes.txt", "sub/c.tif"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    os.symlink(tmp_path / "a.png", tmp_path / "d.png")
    assert list_images(tmp_path) == ["a.png", "b.JPG", "d.png", "sub/c.tif"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no images"):
        list_images(tmp_path / "empty")
    with pytest.raises(ValueError, match="not a folder"):
        list_images(tmp_path / "a.png")


def test_masks_have_two_names(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert find_mask(tmp_path, "sub/a.jpg") is None
    for name in ("a.png", "a.jpg.png"):
        (tmp_path / "sub" / name).touch()
        assert find_mask(tmp_path, "sub/a.jpg") == tmp_path / "sub" / name


@pytest.mark.parametrize(
    ("name", "options"),
    [("a.jpg", {}), ("a.jpg", {"progressive": True}), ("a.png", {}), ("a.bmp", {}), ("a.webp", {"quality": 80}),
     ("a.webp", {"lossless": True}), ("a.webp", {"lossless": True, "exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"})],
)  # fmt: skip
def test_headers_tell_the_size(tmp_path: Path, name: str, options: dict) -> None:
    Image.fromarray(texture(60, 83)).convert("RGB").save(tmp_path / name, **options)
    assert read_header_size((tmp_path / name).read_bytes()) == (83, 60)
    assert image_size(tmp_path / name) == (83, 60)


@pytest.mark.parametrize("data", [b"", b"RIFF", b"RIFF1234WEBPVP8 ", b"hello, world, hello, world, hello"])
def test_what_has_no_header_has_no_size(data: bytes) -> None:
    assert read_header_size(data) is None


def test_gps_positions_of_jpeg_and_tiff_files_and_of_none(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8825).update({1: "S", 2: (33.0, 51.0, 24.48), 3: "W", 4: (0.0, 30.0, 0.0)})
    Image.new("L", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    (tmp_path / "a.tif").write_bytes(exif.tobytes()[6:])  # its header, which is all that is read
    for name in ("a.jpg", "a.tif"):
        assert read_gps(tmp_path / name) == pytest.approx((-33.8568, -0.5))
    exif.get_ifd(0x8825)[2] = (133.0, 0.0, 0.0)
    Image.new("L", (8, 8)).save(tmp_path / "beyond.jpg", exif=exif)
    Image.new("L", (8, 8)).save(tmp_path / "none.jpg")
    Image.new("L", (8, 8)).save(tmp_path / "none.png")
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[:60])
    (tmp_path / "damaged.jpg").write_bytes(whole.replace(b"\x88\x25", b"\x88\x26"))
    for name in ("beyond.jpg", "none.jpg", "none.png", "cut.jpg", "damaged.jpg", "gone.jpg"):
        assert read_gps(tmp_path / name) is None

"""What is let in: images by their header, before anything is decoded."""

from pathlib import Path

import cv2
import pytest

from patchprint.common.errors import UserError
from patchprint.web.limits import Limits, RequestError


def test_images_are_checked_without_being_decoded(
    images: tuple[Path, Path], bad_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cv2, "imdecode", None)
    Limits().check_image(images[0].read_bytes(), "a.png")
    for words, path in bad_files.items():
        with pytest.raises(RequestError, match=words) as error:
            Limits().check_image(path.read_bytes(), path.name)
        assert error.value.status == (413 if "huge" in words else 400)


def test_large_images(images: tuple[Path, Path]) -> None:
    data = images[0].read_bytes()
    with pytest.raises(RequestError, match=r"a\.png has 280x240 pixels, 0 megapixels; the limit is 0\.06"):
        Limits(megapixels=0.06).check_image(data, "a.png")
    with pytest.raises(RequestError, match=r"the limit is 0\.01 MB"):
        Limits(upload_mb=0.01).check_image(data, "a.png")


@pytest.mark.parametrize("kind", [b"II*\0\x08\0\0\0", b"P5 3 3 255 123456789", b"GIF89a\x01\0\x01\0", b"#?RADIANCE\n"])
def test_types_whose_size_is_not_known_before_decoding_are_refused(kind: bytes) -> None:
    with pytest.raises(RequestError, match="choose a JPEG, PNG, WebP or BMP"):
        Limits().check_image(kind + bytes(100), "a.tif")


@pytest.mark.parametrize("name", ["upload_mb", "megapixels", "seconds", "waiting"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_limits_must_limit(name: str, value: float) -> None:
    with pytest.raises(UserError, match=f"the limit {name} is"):
        Limits(**{name: value})

"""What is let in: photos by their header, before anything is decoded."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchprint.common.errors import UserError
from patchprint.interop import image_files
from patchprint.web.limits import Limits, TooLargeError


def test_a_photo_is_let_in_without_being_decoded(photos: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files, "_decode", None)
    Limits().check_photo(photos[0].read_bytes(), "a.png")


def test_files_that_are_no_photos(bad_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files, "_decode", None)
    for words, path in bad_files.items():
        with pytest.raises(UserError, match=words):
            Limits().check_photo(path.read_bytes(), path.name)


def test_large_photos(photos: tuple[Path, Path]) -> None:
    data = photos[0].read_bytes()
    with pytest.raises(TooLargeError, match=r"a\.png has 280x240 pixels, 0 megapixels; the limit is 0\.06"):
        Limits(megapixels=0.06).check_photo(data, "a.png")
    with pytest.raises(TooLargeError, match=r"the limit is 0\.01 MB"):
        Limits(upload_mb=0.01).check_photo(data, "a.png")


@pytest.mark.parametrize("kind", [b"II*\0\x08\0\0\0", b"P5 3 3 255 123456789", b"GIF89a\x01\0\x01\0", b"#?RADIANCE\n"])
def test_kinds_whose_size_is_not_known_before_decoding_are_refused(kind: bytes) -> None:
    with pytest.raises(UserError, match="choose a JPEG, PNG, WebP or BMP"):
        Limits().check_photo(kind + bytes(100), "a.tif")


@pytest.mark.parametrize("name", ["upload_mb", "megapixels", "seconds", "waiting"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_limits_must_limit(name: str, value: float) -> None:
    with pytest.raises(UserError, match=f"the limit {name} is"):
        Limits(**{name: value})

"""What one request may ask for, and the photos that are let in."""

from __future__ import annotations

from dataclasses import dataclass, fields

from patchprint.common.errors import UserError
from patchprint.common.image_codec import size_in_header


class RefusedError(UserError):
    """A request that is not answered for what it is, with the status that HTTP has for it."""

    status = 400


class TooLargeError(RefusedError):
    status = 413


class TooBusyError(RefusedError):
    status = 429


class OutOfTimeError(RefusedError):
    status = 503


class FaultError(RefusedError):
    """The program's, not the user's."""

    status = 500


@dataclass(frozen=True)
class Limits:
    """What one request may ask for.

    Attributes:
        upload_mb: megabytes of one photo.
        megapixels: of one photo, as its header says, before it is decoded.
        seconds: in which a request must have arrived, and in which it is answered.
        waiting: requests that wait for those that are being answered; more are turned away.
    """

    upload_mb: float = 25.0
    megapixels: float = 30.0
    seconds: float = 60.0
    waiting: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < float("inf"):
                raise UserError(f"the limit {field.name} is {value:g}; it must be a number above zero")

    @property
    def photo_bytes(self) -> int:
        return int(self.upload_mb * 1e6)

    @property
    def request_bytes(self) -> int:
        """Two photos, and a little for what stands around them."""
        return 2 * self.photo_bytes + (1 << 16)

    def check_photo(self, data: bytes, name: str) -> None:
        """Raise where a file is no picture or a picture that is too large; nothing is decoded.

        Only kinds whose header tells their size are let in, which are those that browsers show, too.
        """
        if not data:
            raise UserError(f"{name} is empty (0 bytes); choose a picture")
        if len(data) > self.photo_bytes:
            raise TooLargeError(
                f"{name} has {len(data) / 1e6:.1f} MB, the limit is {self.upload_mb:g} MB; make it smaller"
            )
        size = size_in_header(data)
        if size is None:
            raise UserError(f"{name} is not a picture that can be read here; choose a JPEG, PNG, WebP or BMP file")
        width, height = size
        if width * height > self.megapixels * 1e6:
            raise TooLargeError(
                f"{name} has {width}x{height} pixels, {width * height / 1e6:.0f} megapixels; "
                f"the limit is {self.megapixels:g}; make it smaller"
            )

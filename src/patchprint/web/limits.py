"""Limits of a request, and the check of an uploaded image before it is decoded."""

from dataclasses import dataclass, fields

from patchprint.common.errors import UserError
from patchprint.interop.images import read_header_size


class RequestError(UserError):
    """A request is refused, with a sentence and an HTTP status."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """Limits of one request."""

    upload_mb: float = 25.0  # megabytes of one image
    megapixels: float = 30.0  # of one image, read from its header before it is decoded
    seconds: float = 60.0  # deadline for a request to arrive, and for its answer
    waiting: int = 16  # requests that may wait while another is answered; more are refused

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < float("inf"):
                raise UserError(f"the limit {field.name} is {value:g}; it must be a number above zero")

    @property
    def request_bytes(self) -> int:
        """Maximum size of a request: two images and some space for the other fields."""
        return 2 * int(self.upload_mb * 1e6) + (1 << 16)

    @property
    def total_bytes(self) -> int:
        """Maximum total size of all running requests, which bounds the memory for uploads."""
        return 20 * self.request_bytes

    def check_image(self, data: bytes, name: str) -> None:
        """Check type and size of an image by its header, without decoding it.

        Only file types that state the size in the header are accepted; browsers show all of them.

        Raises:
            RequestError: the file is no image or too large.
        """
        if not data:
            raise RequestError(f"{name} is empty (0 bytes); choose an image")
        if len(data) > self.upload_mb * 1e6:
            size = f"{len(data) / 1e6:.1f} MB"
            raise RequestError(f"{name} has {size}, the limit is {self.upload_mb:g} MB; make it smaller", 413)
        pixels = read_header_size(data)
        if pixels is None:
            raise RequestError(f"{name} is not an image that can be read here; choose a JPEG, PNG, WebP or BMP file")
        width, height = pixels
        if width * height > self.megapixels * 1e6:
            raise RequestError(
                f"{name} has {width}x{height} pixels, {width * height / 1e6:.0f} megapixels; "
                f"the limit is {self.megapixels:g}; make it smaller",
                413,
            )

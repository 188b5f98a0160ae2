"""``patchprint serve``: a local page that matches two images, and its HTTP API."""

from pathlib import Path

from patchprint.networks.engines import AUTO
from patchprint.web import HOST, PORT, Limits, serve

_DEFAULT = Limits()


def main(
    host: str = HOST,
    port: int = PORT,
    models: tuple[Path, ...] = (),
    host_name: tuple[str, ...] = (),
    max_upload_mb: float = _DEFAULT.upload_mb,
    max_megapixels: float = _DEFAULT.megapixels,
    max_seconds: float = _DEFAULT.seconds,
    max_waiting: int = _DEFAULT.waiting,
    device: str = "auto",
    engine: str = AUTO,
) -> int:
    """Serve a page in the browser that matches two images and compares with SIFT, and its HTTP API.

    Args:
        host: address to listen on; the default is reachable from this machine only, others may be reachable from the network
        port: 0 picks a free one
        models: weight files to offer besides the shipped models
        host_name: host names allowed in requests, besides localhost and IP addresses
        max_upload_mb: megabytes of one image
        max_megapixels: megapixels of one image
        max_seconds: deadline for the answer to a request
        max_waiting: length of the queue; further requests are refused
        device: auto, cpu, cuda or mps
        engine: how a network is computed, as in patchprint match
    """
    limits = Limits(max_upload_mb, max_megapixels, max_seconds, max_waiting)
    serve(host, port, limits, models, host_name, device, engine)
    return 0


main.has_result = False  # type: ignore[attr-defined]

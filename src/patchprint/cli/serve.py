"""``patchprint serve``: a local page for two photos, and the same as an HTTP API."""

from __future__ import annotations

from pathlib import Path

from patchprint.networks.engines import AUTO
from patchprint.web import HOST, PORT, Limits, serve

_USUAL = Limits()


def main(
    host: str = HOST,
    port: int = PORT,
    models: tuple[Path, ...] = (),
    max_upload_mb: float = _USUAL.upload_mb,
    max_megapixels: float = _USUAL.megapixels,
    max_seconds: float = _USUAL.seconds,
    max_waiting: int = _USUAL.waiting,
    device: str = "auto",
    engine: str = AUTO,
) -> int:
    """A page in the browser: drop two photos, see their matches beside SIFT's; the same as an HTTP API.

    Args:
        host: address to listen at; the default is this machine alone, any other lets strangers in
        port: 0 takes one that is free
        models: weight files to offer beside the shipped models
        max_upload_mb: megabytes of one photo
        max_megapixels: megapixels of one photo
        max_seconds: a request that takes longer is given up
        max_waiting: requests that may wait; more are turned away
        device: auto, cpu, cuda or mps
        engine: how a network is computed, as in patchprint match
    """
    limits = Limits(max_upload_mb, max_megapixels, max_seconds, max_waiting)
    serve(host, port, limits, models, device, engine)
    return 0

"""What engines make of a network, kept in the cache folder: checked whenever it is read, and made again where it differs."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from torch import Tensor, nn

from patchprint import __version__, networks
from patchprint.common.files import atomic_file, cache_folder
from patchprint.common.progress import note
from patchprint.interop.onnx import onnx_bytes
from patchprint.networks import PatchNetwork, weights

_DIGEST = hashlib.sha256().digest_size  # bytes before the content of a cached file


def exported(network: PatchNetwork) -> bytes:
    """The network as ONNX, without its head: patches (N, 1, S, S) in [0, 1] to raw vectors (N, D)."""
    return cached(network, "onnx", lambda: onnx_bytes(_Raw(network), network.input_size, {}))


def cached(network: PatchNetwork, kind: str, make: Callable[[], bytes]) -> bytes:
    """What ``make`` gives for a network, from the cache where it is there and whole.

    A cache that cannot be read or written, as on a full disk or in a container without a home folder, costs the time to make
    it again and nothing else.
    """
    known_by = [network.info.network, network.info.options, weights.weights_sha256(network.state_dict()), _code()]
    name = hashlib.sha256(json.dumps([*known_by, __version__], sort_keys=True).encode()).hexdigest()[:16]
    try:
        path = cache_folder("engines") / f"{name}.{kind}"
    except RuntimeError:  # nobody's home folder is known
        return make()
    kept = _read(path)
    if kept is not None:
        return kept
    made = make()
    try:
        with atomic_file(path) as temporary:
            temporary.write_bytes(hashlib.sha256(made).digest() + made)
    except OSError as error:
        note(f"the engine is not kept for the next time: {error}; PATCHPRINT_CACHE names another folder")
    return made


def _read(path: Path) -> bytes | None:
    """The content of a cached file; None where it is not there or not as it was written."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, content = stored[:_DIGEST], stored[_DIGEST:]
    return content if hashlib.sha256(content).digest() == digest else None


@functools.cache
def _code() -> str:
    """A checksum of what the layers of networks are made of."""
    folder = Path(networks.__file__).parent
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()


class _Raw(nn.Module):
    """A network without its head: (N, 1, S, S) in [0, 1] -> (N, D)."""

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, patches: Tensor) -> Tensor:
        return self.network.forward_features(patches, with_maps=False)[0]

"""Networks as ONNX files for the engines that read them, made once and kept in the cache."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path

from torch import Tensor, nn

from patchprint import __version__, networks
from patchprint.common.files import cache_folder
from patchprint.interop.onnx import export_onnx
from patchprint.networks import PatchNetwork, weights


def exported(network: PatchNetwork) -> Path:
    """The file of a network, which gives raw vectors; known by network, weights, and the code and version that wrote it."""
    checksum = weights.weights_sha256(network.state_dict())
    known_by = [network.info.network, network.info.options, checksum, _code(), __version__]
    name = hashlib.sha256(json.dumps(known_by, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache_folder("engines")
    path = folder / f"{name}.onnx"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        export_onnx(_Raw(network), network.input_size, path, {})
    return path


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

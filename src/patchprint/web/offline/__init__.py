"""One HTML file that matches two images in a browser, without a server or a request.

The page is joined out of the files in this folder, and out of page.css and images.js of the page of ``patchprint serve``:

page.html, page.css, page.js    what is seen; images are decoded here
kernels.js                      WebAssembly SIMD, assembled in the browser, and the same in JavaScript
dog.js, sampling.js, network.js keypoints, patches, descriptors
webgpu.js                       descriptors on a GPU, where the browser has one
matching.js, graph.js           matches
geometry.js                     verification
worker.js                       runs all of them in Web Workers, one for each image
"""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file
from patchprint.common.types import ModelId
from patchprint.matching.matchers.graph import LEAST, TOLERANCE, GraphWeights, load_weights
from patchprint.matching.two_view_geometry import FITTED
from patchprint.networks import PatchNetwork
from patchprint.networks.blocks import Fovea, PatchStandardization
from patchprint.networks.hynet import TLU, FilterResponseNorm2d

FOLDER = Path(__file__).resolve().parent
IN_WORKER = ("kernels", "dog", "sampling", "network", "webgpu", "matching", "graph", "geometry", "worker")
LARGEST = 1_500_000  # bytes of the page


def write_page(network: PatchNetwork, out: Path, graph: GraphWeights | None = None) -> int:
    """Write the page with the weights of a network, and of a graph matcher for its descriptors; returns its bytes.

    Weights are float16, or int8 where the page would be too large.

    Raises:
        UserError: for a network with layers that the page does not compute, and one that is too large for it.
    """
    for bits in (16, 8):
        page = join_page(network, graph, bits).encode()
        if len(page) <= LARGEST:
            break
    else:
        raise UserError(
            f"{network.info.name}: the page would have {len(page) / 1e6:.1f} MB, more than {LARGEST / 1e6:g}; "
            "take a smaller network, such as patchprint.tiny or patchprint.fast"
        )
    with atomic_file(out) as temporary:
        temporary.write_bytes(page)
    return len(page)


def graph_for(network: PatchNetwork, file: Path | None = None) -> GraphWeights | None:
    """Load weights of a graph matcher from a file, else those shipped for the network; None where there are none."""
    info = network.info
    try:
        return load_weights(str(file or ""), ModelId(info.name, info.sha256), torch.device("cpu"))
    except UserError:
        if file:
            raise
        return None


def join_page(network: PatchNetwork, graph: GraphWeights | None = None, bits: int = 16) -> str:
    """Join the files of this folder and the weights to one page."""
    model, packed = pack_network(network, bits), None if graph is None else pack_graph(graph)
    verdict = json.loads(FITTED.read_text(encoding="utf-8"))
    del verdict["made"]
    parts = {
        "style": _read("../static/page.css") + _read("page.css"),
        "script": _read("../static/images.js") + _read("page.js"),
        "worker": worker_source(),
        "data": json.dumps({"model": model, "graph": packed, "verdict": verdict}),
    }
    page = _read("page.html")
    for name, text in parts.items():
        assert "</script" not in text
        page = page.replace(f"<!-- {name} -->", text)
    return page


def worker_source() -> str:
    """Join the scripts of the Web Worker."""
    return "\n".join(_read(f"{name}.js") for name in IN_WORKER)


def pack_network(network: PatchNetwork, bits: int = 16) -> dict[str, Any]:
    """Convert a network to what network.js reads: layers, and in base64 their weights and the numbers of each channel.

    Batch norms become a scale and a bias of each output of the convolution before them, in float32.

    Raises UserError for a network with layers that network.js does not compute.
    """
    info, chain = network.info, network.in_evaluation().chain()
    if chain is None or network.kind != "float" or network.channels != 1:
        raise UserError(f"{info.name}: the page computes plain chains of layers with float descriptors only")
    first, *rest = [layer for layer in chain if not isinstance(layer, nn.Dropout)]
    layers, weights, channels = [_pack_first(first, info.name)], list[Tensor](), list[Tensor]()
    for layer, *after in zip(rest, [*rest[1:], None], [*rest[2:], None, None][: len(rest)], strict=True):
        if isinstance(layer, nn.Conv2d):
            norm = after[0] if isinstance(after[0], nn.BatchNorm2d) else None
            relu = after[1] if norm else after[0]
            layers.append(_pack_conv(layer, isinstance(relu, nn.ReLU)))
            weight, scale = (layer.weight, torch.ones(layer.out_channels)) if bits == 16 else _quantize(layer.weight)
            weights.append(weight)
            channels += _fold(layer, norm, scale)
        elif isinstance(layer, FilterResponseNorm2d):
            layers.append({"kind": "frn", "channels": layer.weight.numel(), "eps": float(layer.eps.abs())})
            channels += [layer.weight, layer.bias]
        elif isinstance(layer, TLU):
            layers.append({"kind": "tlu", "channels": layer.tau.numel()})
            channels.append(layer.tau)
        elif not isinstance(layer, (nn.ReLU, nn.BatchNorm2d)):  # parts of the convolution before them
            raise UserError(f"{info.name}: the page does not compute the layer {type(layer).__name__}")
    return {
        "name": info.name,
        "sha256": info.sha256,
        "dim": info.dim,
        "input_size": info.input_size,
        "patch_scale": info.patch_scale,
        "ratio": info.ratio,
        "layers": layers,
        "bits": bits,
        "weights": encode(weights, "<f2" if bits == 16 else "i1"),
        "channels": encode(channels, "<f4"),
    }


def pack_graph(graph: GraphWeights) -> dict[str, Any]:
    """Convert the weights of a graph matcher to what graph.js reads."""
    state, options = graph.network.state_dict(), graph.network.options
    if others := set(options.changed()) - {"width", "rounds"}:
        raise UserError(
            f"the page does not compute a matcher graph with other {', '.join(sorted(others))} than the shipped one"
        )
    return {
        "threshold": min(graph.threshold, LEAST),
        "tolerance": TOLERANCE,
        "width": options.width,
        "rounds": options.rounds,
        "shapes": {name: list(value.shape) for name, value in state.items()},
        "weights": encode(state.values(), "<f2"),
    }


def encode(values: Iterable[Tensor], kind: str) -> str:
    """Encode tensors, one after the other, as numbers of a NumPy type in base64."""
    numbers = np.concatenate([value.detach().float().cpu().numpy().ravel() for value in values])
    return base64.b64encode(numbers.astype(kind).tobytes()).decode()


def _quantize(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round weights to whole numbers up to 127 for each output, and return what they are to be multiplied with."""
    step = weight.detach().abs().amax((1, 2, 3)).clamp(min=1e-12) / 127
    return (weight / step[:, None, None, None]).round(), step


def _fold(conv: nn.Conv2d, norm: nn.BatchNorm2d | None, scale: Tensor) -> list[Tensor]:
    """Return scale and bias of each output of a convolution with the norm after it."""
    bias = torch.zeros(conv.out_channels) if conv.bias is None else conv.bias
    if norm is None:
        return [scale, bias]
    assert norm.running_mean is not None
    assert norm.running_var is not None
    factor = torch.rsqrt(norm.running_var + norm.eps)
    if norm.affine:
        factor = factor * norm.weight
    shift = (bias - norm.running_mean) * factor
    return [scale * factor, shift + norm.bias if norm.affine else shift]


def _pack_first(layer: nn.Module, name: str) -> dict[str, Any]:
    if isinstance(layer, Fovea):
        return {"kind": "squares", "count": len(layer.quarters), "eps": layer.standardize.eps}
    if isinstance(layer, PatchStandardization):
        return {"kind": "standardize", "eps": layer.eps}
    if isinstance(layer, nn.InstanceNorm2d):
        return {"kind": "instance", "eps": layer.eps}
    raise UserError(f"{name}: the page standardizes patches first, which this network does not")


def _pack_conv(layer: nn.Conv2d, relu: bool) -> dict[str, Any]:
    (kernel, _), (stride, _), padding = layer.kernel_size, layer.stride, layer.padding
    assert isinstance(padding, tuple)
    sizes = {"inputs": layer.in_channels, "outputs": layer.out_channels, "kernel": kernel}
    return {"kind": "conv", **sizes, "stride": stride, "padding": padding[0], "relu": relu}


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")

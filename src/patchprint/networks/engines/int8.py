"""Engine with convolutions in 8 bits by OpenVINO, the rest in bfloat16 where the CPU has it, else in float32.

Quantized networks are kept in the cache folder; damaged entries are made again.
"""

import contextlib
import functools
import hashlib
import json
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchprint import __version__, networks
from patchprint.common.errors import UserError, require
from patchprint.common.files import atomic_file, cache_folder
from patchprint.common.progress import note
from patchprint.networks import PatchNetwork, weights
from patchprint.networks.engines import Compute, CpuEngine
from patchprint.networks.network import CHUNK_ON_CPU

_CALIBRATION_PATCHES = 512
_LEAST_AGREEMENT = 0.98  # mean cosine between quantized and exact descriptors of the calibration patches
_DIGEST = hashlib.sha256().digest_size  # bytes before the content of a cached file


class Int8Engine(CpuEngine):
    """Engine with weights and inputs of all convolutions quantized to 8 bits, compiled for chunks of one size.

    Weights are quantized by output channel, inputs by their range on synthetic patches (`dead_leaves`), so that equal weights
    give equal engines everywhere. Networks that lose too much are refused. A forked child computes with PyTorch in float32
    instead: OpenVINO's threads stay with the parent, and its locks may be held for ever.
    """

    package = "openvino"
    extra = "fast"

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__(network)
        self._openvino = require(self.package, self.extra)
        self._setting_up = threading.Lock()
        self._process = os.getpid()
        self._network = network
        core = _core()
        model = self._quantized(network)
        self._shape = (CHUNK_ON_CPU, 1, network.input_size, network.input_size)
        model.reshape(self._shape)
        in_bfloat16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        self._compiled = core.compile_model(
            model,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": "bf16" if in_bfloat16 else "f32",
                "INFERENCE_NUM_THREADS": torch.get_num_threads(),
                "NUM_STREAMS": torch.get_num_threads(),  # one for each of our threads
            },
        )

    @contextlib.contextmanager
    def session(self) -> Iterator[Compute]:
        if os.getpid() != self._process:
            yield self._network.raw
            return
        batch = np.zeros(self._shape, np.float32)
        # Tensors are handed over once and by one thread at a time: doing it for each chunk led to a deadlock inside OpenVINO.
        with self._setting_up:
            request = self._compiled.create_infer_request()
            request.set_input_tensor(self._openvino.Tensor(batch, shared_memory=True))
            found = request.get_output_tensor().data

        def compute(patches: Tensor) -> Tensor:
            batch[: len(patches)] = patches / 255 if patches.dtype == torch.uint8 else patches
            request.start_async()
            request.wait()
            return torch.from_numpy(found[: len(patches)].copy())

        yield compute

    def _quantized(self, network: PatchNetwork) -> Any:
        version = self._openvino.get_version().split("-")[0]  # an older one may not read a newer one's graphs
        kind = f"openvino-{version}"
        head, _, content = cached(network, kind, lambda: self._prepare(network)).partition(b"\n")
        facts = json.loads(head)
        if facts["agreement"] < _LEAST_AGREEMENT:
            cosine = f"a cosine of {facts['agreement']:.3f} with float32"
            raise UserError(f"in 8 bits {network.info.name} loses too much: {cosine}; take the engine float32")
        return _core().read_model(content[: facts["graph"]], content[facts["graph"] :])

    def _prepare(self, network: PatchNetwork) -> bytes:
        """Quantize a network: a line of JSON, the graph in OpenVINO's XML, and its weights.

        The first line has the mean cosine between quantized and exact descriptors, and the number of bytes of the graph.
        """
        note(f"preparing {network.info.name} in 8 bits, once on this machine")
        patches = dead_leaves(_CALIBRATION_PATCHES, network.input_size)
        model = self._converted(network)
        watched = self._openvino.Model([each.input_value(0) for each in _convolutions(model)], model.get_parameters())
        compiled = _core().compile_model(watched, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        inputs = compiled([patches.numpy()])
        ranges = [(float(inputs[output].min()), float(inputs[output].max())) for output in compiled.outputs]
        _quantize(self._openvino, model, ranges)
        found = torch.from_numpy(_core().compile_model(model, "CPU")([patches.numpy()])[0])
        with torch.no_grad():
            agreement = float(F.cosine_similarity(found, network.raw(patches).cpu()).mean())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.xml"
            self._openvino.save_model(model, path, compress_to_fp16=False)
            graph, values = path.read_bytes(), path.with_suffix(".bin").read_bytes()
        return json.dumps({"agreement": agreement, "graph": len(graph)}).encode() + b"\n" + graph + values

    def _converted(self, network: PatchNetwork) -> Any:
        """Trace a network into a graph of OpenVINO, for any number of patches."""
        size = network.input_size
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on conditions that depend on the shape of patches alone
            try:
                model = self._openvino.convert_model(
                    _Raw(network.in_evaluation()), example_input=torch.rand(2, 1, size, size)
                )
            except self._openvino.frontend.OpConversionFailure as error:
                raise UserError(
                    f"OpenVINO lacks an operation of {network.info.name}; take the engine float32"
                ) from error
        model.reshape([-1, 1, size, size])
        return model


class _Raw(nn.Module):
    """A network without its head: (N, 1, S, S) in [0, 1] -> (N, D)."""

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, patches: Tensor) -> Tensor:
        return self.network.forward_features(patches, with_maps=False)[0]


@functools.cache
def _core() -> Any:
    """The OpenVINO core of this process, never freed.

    Each core installs a signal stack and restores the previous one when it is freed. If two are freed in the order of their
    creation, the stack of the first is restored after it is gone, and the next Ctrl-C is a segmentation fault.
    """
    return require(Int8Engine.package, Int8Engine.extra).Core()


def _convolutions(model: Any) -> list[Any]:
    return [operation for operation in model.get_ordered_ops() if operation.get_type_name() == "Convolution"]


def _quantize(openvino: Any, model: Any, ranges: list[tuple[float, float]]) -> None:
    """Insert FakeQuantize, which OpenVINO turns into 8-bit integers, before both inputs of every convolution."""
    rounded = openvino.opset13.fake_quantize
    for convolution, (low, high) in zip(_convolutions(model), ranges, strict=True):
        limits = [np.float32(min(low, 0)), np.float32(max(high, 0))] * 2
        convolution.input(0).replace_source_output(rounded(convolution.input_value(0), *limits, levels=256).output(0))
        weight = convolution.input_value(1)
        largest = np.abs(weight.get_node().data).max((1, 2, 3), keepdims=True).astype(np.float32)
        convolution.input(1).replace_source_output(rounded(weight, *[-largest, largest] * 2, levels=255).output(0))


def cached(network: PatchNetwork, kind: str, make: Callable[[], bytes]) -> bytes:
    """Return what ``make`` gives for a network, from the cache where it is there and undamaged.

    A cache that cannot be read or written (full disk, no home folder) costs time and nothing else.
    """
    known_by = [network.info.network, network.info.options, weights.weights_sha256(network.state_dict()), _code()]
    name = hashlib.sha256(json.dumps([*known_by, __version__], sort_keys=True).encode()).hexdigest()[:16]
    try:
        path = cache_folder("engines") / f"{name}.{kind}"
    except RuntimeError:  # no home folder
        return make()
    with contextlib.suppress(OSError):
        stored = path.read_bytes()
        if hashlib.sha256(stored[_DIGEST:]).digest() == stored[:_DIGEST]:
            return stored[_DIGEST:]
    made = make()
    try:
        with atomic_file(path) as temporary:
            temporary.write_bytes(hashlib.sha256(made).digest() + made)
    except OSError as error:
        note(f"the engine is not kept for the next time: {error}; PATCHPRINT_CACHE names another folder")
    return made


@functools.cache
def _code() -> str:
    """Checksum of the source of the networks."""
    folder = Path(networks.__file__).parent
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()


def dead_leaves(count: int, size: int, seed: int = 0) -> Tensor:
    """Synthetic patches with the statistics of natural images: opaque discs that occlude each other.

    Edges, occlusions and flat parts have the frequencies of natural images at all sizes (A. Lee, D. Mumford and J. Huang,
    Occlusion models for natural images, IJCV 41, 2001).

    Shape:
        (count, 1, size, size) float32 in [0, 1], the same for the same seed.
    """
    smallest, largest = 1.5, 60.0  # radii in pixels
    leaves = 120  # enough to cover a patch of 32 pixels with few gaps
    rng = np.random.default_rng(seed)
    shape = (count, leaves)
    # The density of radii falls with their third power, which makes the model scale invariant.
    share = rng.random(shape)
    radius = 1 / np.sqrt(share / smallest**2 + (1 - share) / largest**2)
    x, y = (rng.uniform(-radius, size + radius) for _ in range(2))
    gray = rng.beta(0.7, 0.7, shape)
    patches = np.full((count, size, size), 0.5)
    blur = np.exp2(rng.uniform(0, 2, count))  # width of an edge in pixels
    place = np.arange(size)
    for leaf in range(leaves):
        # Most discs are small: only the square around each is computed.
        across, down = place - x[:, leaf, None], place - y[:, leaf, None]
        reach = (radius[:, leaf] + blur)[:, None]
        which, row, column = np.nonzero((abs(down) < reach)[:, :, None] & (abs(across) < reach)[:, None])
        distance = radius[which, leaf] - np.hypot(across[which, column], down[which, row])
        cover = np.clip(distance / blur[which] + 0.5, 0, 1)
        before = patches[which, row, column]
        patches[which, row, column] = before + cover * (gray[which, leaf] - before)
    light = rng.uniform(0.3, 1.0, (count, 1, 1))
    noise = rng.normal(0, 1, patches.shape) * rng.exponential(0.01, (count, 1, 1))
    return torch.from_numpy(np.clip(patches * light + noise, 0, 1)).float()[:, None]


engine = Int8Engine

"""OpenVINO: in bfloat16 where the processor multiplies in it, else in float32; or with convolutions of 8-bit integers."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.common.optional import require
from patchprint.interop.onnx import as_array
from patchprint.networks import PatchNetwork
from patchprint.networks.engines._cache import cached, exported
from patchprint.networks.engines._dead_leaves import dead_leaves
from patchprint.networks.engines._engine import Compute, CpuEngine
from patchprint.networks.network import CHUNK_ON_CPU

_SHOWN = 512  # patches by which the ranges of 8-bit activations are found
_LEAST_AGREEMENT = 0.98  # mean cosine with what the network says about them


class OpenVinoEngine(CpuEngine):
    """Compiled for chunks of one size, the rest is filled up.

    A forked child computes with PyTorch in float32 instead: the threads that would compute stayed with its parent, and whatever
    OpenVINO held at that moment is held for ever, so that even a new start may not end.
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
        model = self._model(network)
        self._shape = (CHUNK_ON_CPU, 1, network.input_size, network.input_size)
        model.reshape(self._shape)
        in_bfloat16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        self._compiled = core.compile_model(
            model,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": "bf16" if in_bfloat16 else "f32",
                "INFERENCE_NUM_THREADS": torch.get_num_threads(),
                # A stream is a core: every thread of ours computes alone.
                "NUM_STREAMS": torch.get_num_threads(),
            },
        )

    def _model(self, network: PatchNetwork) -> Any:
        """What is compiled."""
        return _core().read_model(exported(network))

    @contextlib.contextmanager
    def session(self) -> Iterator[Compute]:
        if os.getpid() != self._process:
            yield self._network.raw
            return
        batch = np.zeros(self._shape, np.float32)
        # Tensors are handed over once, by one thread at a time: where two did so for each chunk, they once waited for each
        # other for ever, inside of OpenVINO.
        with self._setting_up:
            request = self._compiled.create_infer_request()
            request.set_input_tensor(self._openvino.Tensor(batch, shared_memory=True))
            found = request.get_output_tensor().data

        def compute(patches: Tensor) -> Tensor:
            batch[: len(patches)] = as_array(patches)
            request.start_async()
            request.wait()
            return torch.from_numpy(found[: len(patches)].copy())

        yield compute


class Int8Engine(OpenVinoEngine):
    """Weights and inputs of all convolutions have 8 bits; the rest is as without.

    Weights are rounded by output channel, inputs within the range that they have for patches which look like photos
    (`dead_leaves`), so that the same weights give the same engine everywhere. A network that loses too much by it is refused.
    """

    def _model(self, network: PatchNetwork) -> Any:
        model = super()._model(network)
        found = json.loads(cached(network, "int8.json", lambda: json.dumps(self._measure(network)).encode()))
        if found["agreement"] < _LEAST_AGREEMENT:
            raise UserError(
                f"with integers of 8 bits {network.info.name} loses too much: the cosine with its own descriptors is "
                f"{found['agreement']:.3f}; take the engine openvino"
            )
        _round_to_8_bits(self._openvino, model, found["ranges"])
        return model

    def _measure(self, network: PatchNetwork) -> dict[str, Any]:
        """The range of the inputs of each convolution, and the mean cosine with what the network says when they are rounded."""
        patches = dead_leaves(_SHOWN, network.input_size)
        model = super()._model(network)
        ranges = _ranges(self._openvino, model, patches.numpy())
        _round_to_8_bits(self._openvino, model, ranges)
        found = torch.from_numpy(_core().compile_model(model, "CPU")([patches.numpy()])[0])
        with torch.no_grad():
            agreement = float(F.cosine_similarity(found, network.raw(patches).cpu()).mean())
        return {"ranges": ranges, "agreement": agreement}


@cache
def _core() -> Any:
    """One for the process, which is never freed.

    Each brings a stack on which the signals of the thread are handled, and puts back the one that it found when it is freed. Of
    two that are freed in the order in which they were made, the second puts back the stack of the first, which is gone: the
    next Ctrl-C would be a segmentation fault.
    """
    return require(OpenVinoEngine.package, OpenVinoEngine.extra).Core()


def _convolutions(model: Any) -> list[Any]:
    return [operation for operation in model.get_ordered_ops() if operation.get_type_name() == "Convolution"]


def _ranges(openvino: Any, model: Any, patches: np.ndarray) -> list[tuple[float, float]]:
    """Smallest and largest input of each convolution."""
    watched = openvino.Model([each.input_value(0) for each in _convolutions(model)], model.get_parameters())
    compiled = _core().compile_model(watched, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled([patches])
    return [(float(found[output].min()), float(found[output].max())) for output in compiled.outputs]


def _round_to_8_bits(openvino: Any, model: Any, ranges: list[tuple[float, float]]) -> None:
    """Put what OpenVINO knows as a request for 8-bit integers before both inputs of every convolution."""
    rounded = openvino.opset13.fake_quantize
    for convolution, (low, high) in zip(_convolutions(model), ranges, strict=True):
        limits = [np.float32(min(low, 0)), np.float32(max(high, 0))] * 2
        convolution.input(0).replace_source_output(rounded(convolution.input_value(0), *limits, levels=256).output(0))
        weight = convolution.input_value(1)
        largest = np.abs(weight.get_node().data).max((1, 2, 3), keepdims=True).astype(np.float32)
        convolution.input(1).replace_source_output(rounded(weight, *[-largest, largest] * 2, levels=255).output(0))

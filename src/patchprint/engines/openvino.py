"""OpenVINO, in bfloat16 where the processor multiplies in it, else in float32."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from patchprint.engines._base import Compute, Engine
from patchprint.engines._exported import exported
from patchprint.extras import require
from patchprint.files import cache_folder
from patchprint.interop.onnx import as_array
from patchprint.networks import PatchNetwork
from patchprint.networks.base import CHUNK_ON_CPU


class OpenVinoEngine(Engine):
    """Compiled for chunks of one size, the rest is filled up; compiled once for a machine, and kept in the cache."""

    package = "openvino"
    extra = "fast"

    def __init__(self, network: PatchNetwork) -> None:
        openvino = require(self.package, self.extra)
        core = openvino.Core()
        model = core.read_model(exported(network))
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
                "CACHE_DIR": str(cache_folder("engines")),
            },
        )

    @contextlib.contextmanager
    def session(self) -> Iterator[Compute]:
        request = self._compiled.create_infer_request()
        batch = np.zeros(self._shape, np.float32)

        def compute(patches: Tensor) -> Tensor:
            batch[: len(patches)] = as_array(patches)
            return torch.from_numpy(request.infer([batch])[0][: len(patches)].copy())

        yield compute

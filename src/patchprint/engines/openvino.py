"""OpenVINO, in bfloat16 where the processor multiplies in it, else in float32."""

from __future__ import annotations

import contextlib
import threading
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
        self._openvino = require(self.package, self.extra)
        self._setting_up = threading.Lock()
        core = self._openvino.Core()
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

"""ONNX Runtime, in float32."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from patchprint.common.optional import require
from patchprint.interop.onnx import INPUT, OUTPUT, as_array
from patchprint.networks import PatchNetwork
from patchprint.networks.engines._cache import exported
from patchprint.networks.engines._engine import Compute, CpuEngine


class OnnxRuntimeEngine(CpuEngine):
    """One session, in which every thread of ours computes alone."""

    package = "onnxruntime"
    extra = "onnx"

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__(network)
        runtime = require(self.package, self.extra)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = runtime.InferenceSession(exported(network), options, providers=["CPUExecutionProvider"])

    @contextlib.contextmanager
    def session(self) -> Iterator[Compute]:
        def compute(patches: Tensor) -> Tensor:
            return torch.from_numpy(self._session.run([OUTPUT], {INPUT: as_array(patches)})[0])

        yield compute

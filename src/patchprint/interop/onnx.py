"""ONNX: a network in one file, with its normalization inside, checked in the two runtimes that people use.

The graph takes ``patches`` (N, C, S, S) float32 in [0, 1] and gives ``descriptors`` (N, D) float32, for any N; binary networks
give signs / sqrt(D). OpenCV 5 runs every network, OpenCV 4.10 and 4.13 all but those with a spatial transformer (they have no
GridSample); the importer of OpenCV 4.6 is too old for these graphs.
"""

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError, require
from patchprint.common.files import atomic_file

INPUT, OUTPUT = "patches", "descriptors"
RUNTIMES = ("onnxruntime", "opencv")
OPSET = 18


def export_onnx(
    network: nn.Module, input_size: int, path: str | Path, metadata: Mapping[str, str], channels: int = 1
) -> None:
    """Write ``network`` in evaluation mode, with a free batch size; ``metadata`` is stored as key and value strings."""
    content = onnx_bytes(network, input_size, metadata, channels)
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def onnx_bytes(network: nn.Module, input_size: int, metadata: Mapping[str, str], channels: int = 1) -> bytes:
    """What `export_onnx` writes."""
    network = network.eval()
    device = next(network.parameters()).device
    example = torch.rand(2, channels, input_size, input_size, device=device)
    free = ({0: torch.export.Dim("n")},)
    return export_program(network, (example,), (INPUT,), (OUTPUT,), free, metadata)


def export_program(
    module: nn.Module,
    examples: tuple[Tensor, ...],
    inputs: Sequence[str],
    outputs: Sequence[str],
    dynamic_shapes: tuple[Any, ...],
    metadata: Mapping[str, str],
) -> bytes:
    """Trace a module with example inputs, and return it as ONNX."""
    onnx = require("onnx", extra="onnx")
    require("onnxscript", extra="onnx")
    with _quiet():
        program = torch.onnx.export(
            module,
            examples,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=dynamic_shapes,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    # The exporter leaves paths of this machine's source files in every node.
    for node in model.graph.node:
        del node.metadata_props[:]
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def as_array(patches: Tensor) -> np.ndarray:
    """Patches as the graph takes them: uint8 or float in [0, 1] -> float32 in [0, 1]."""
    return (patches.float() / 255 if patches.dtype == torch.uint8 else patches.float()).cpu().numpy()


def run_onnx(path: str | Path, patches: Tensor, runtime: str) -> Tensor:
    """Descriptors of ``patches`` by the exported file, computed by "onnxruntime" or by "opencv" (cv2.dnn).

    Shape:
        patches (N, C, S, S) float in [0, 1] -> (N, D) float32.
    """
    array = as_array(patches)
    if runtime == "onnxruntime":
        session = require("onnxruntime", extra="onnx").InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return torch.from_numpy(session.run([OUTPUT], {INPUT: array})[0])
    if runtime != "opencv":
        raise UserError(f"unknown ONNX runtime {runtime!r}; known are {', '.join(RUNTIMES)}")
    net = require("cv2", extra="onnx").dnn.readNetFromONNX(str(path))
    net.setInput(array, INPUT)
    return torch.from_numpy(np.array(net.forward(), dtype=np.float32).reshape(len(array), -1))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's remarks about packages that we do not use off the terminal."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            open(os.devnull, "w", encoding="utf-8") as sink,
            contextlib.redirect_stdout(sink),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)

"""``patchprint export``: a network as one ONNX file, compared with torch in two runtimes; its matcher; an HTML page."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor
from torch.nn import functional as F

from patchprint.cli import emit
from patchprint.common.errors import UserError
from patchprint.common.files import check_output_file
from patchprint.features.model import BASELINES, load
from patchprint.interop.onnx import INPUT, OPSET, OUTPUT, RUNTIMES, export_onnx, run_onnx
from patchprint.matching.matchers.graph import load_weights
from patchprint.matching.onnx_matcher import OUTPUTS, Contract, export_matcher, input_names
from patchprint.networks import PatchNetwork, create
from patchprint.networks.hub_folder import write_folder
from patchprint.networks.weights import load_network

TOLERANCE = 1e-4


def main(
    model: tyro.conf.Positional[str],
    out: Path = Path("net.onnx"),
    untrained: bool = False,
    hub: bool = False,
    matcher: Path | None = None,
    tool: Contract | None = None,
    force: bool = False,
) -> int:
    """Write MODEL as ONNX and print the largest difference between torch and each runtime; or as an HTML page.

    The page (--out try.html) matches two images in a browser, offline and without a server.

    Args:
        model: name of shipped weights, a weight file, or with --untrained the name of a network.
        out: the file to write, .onnx or .html.
        untrained: export the network with random weights, to try a runtime out.
        hub: write a folder for the Hugging Face Hub instead, with the weights and a model card.
        matcher: weights of a graph matcher for the page or --tool (patchprint train matcher); default: those shipped for MODEL,
            if any.
        tool: write the matcher graph for MODEL instead, with the inputs and outputs of LightGlue in this tool: opencv
            (cv2.LightGlueMatcher), colmap (ALIKED with LightGlue) or colmap-sift (SIFT with LightGlue).
        force: replace an existing file.
    """
    if tool and not hub and out.suffix.lower() == ".onnx":
        check_output_file(out, force)
        return _write_matcher(model, out, str(matcher or ""), tool)
    if model in BASELINES:
        raise UserError(f"{model} is no network, so there is nothing to export; patchprint models lists the networks")
    is_page = out.suffix.lower() == ".html"
    if tool:
        raise UserError("--tool writes one .onnx file; give --out a name with that suffix")
    if matcher and (hub or not is_page):
        raise UserError("--matcher belongs to pages (--out NAME.html) and --tool; other files hold the network alone")
    if hub:
        return _write_folder(model, out, force)
    if out.suffix.lower() not in (".onnx", ".html"):
        raise UserError(f"{out}: networks are written as .onnx or .html; give --out a name with one of these suffixes")
    check_output_file(out, force)
    network = create(model).eval() if untrained else load_network(model)
    if is_page:
        return _write_page(network, out, matcher)
    info = asdict(network.info)
    metadata = {key: value if isinstance(value, str) else json.dumps(value) for key, value in info.items()}
    export_onnx(network, network.input_size, out, metadata, network.channels)
    parity = measure_parity(network, out)
    result: dict[str, Any] = {
        "model": network.info.name,
        "sha256": network.info.sha256,
        "file": str(out),
        "megabytes": round(out.stat().st_size / 1e6, 3),
        "opset": OPSET,
        "input": {
            "name": INPUT,
            "shape": ["N", network.channels, network.input_size, network.input_size],
            "dtype": "float32 in [0, 1]",
        },
        "patch_scale": network.info.patch_scale,
        "output": {"name": OUTPUT, "shape": ["N", network.dim], "dtype": "float32", "kind": network.kind},
        "max_error": parity,
        "tolerance": TOLERANCE,
    }
    size, meaning = network.input_size, "signs / sqrt(D)" if network.kind == "binary" else "unit length"
    lines = [
        f"{out}: {network.info.name}, {result['megabytes']} MB, opset {OPSET}",
        f"input  {INPUT} (N, {network.channels}, {size}, {size}) float32 in [0, 1]",
        f"output {OUTPUT} (N, {network.dim}) float32, {meaning}",
    ]
    if network.channels == 1:
        lines.append(f"patches are {network.info.patch_scale:g} times as wide as the scale (sigma) of their keypoint")
    lines += [f"largest difference from torch in {name}: {error:.1e}" for name, error in parity.items()]
    emit(result, "\n".join(lines))
    return 0 if all(error < TOLERANCE for error in parity.values()) else 1


def _write_folder(model: str, out: Path, force: bool) -> int:
    if out.suffix == ".onnx":
        raise UserError("--hub writes a folder; give --out the name of one")
    info = write_folder(model, out, force)
    result = {"model": info.name, "sha256": info.sha256, "license": info.license, "folder": str(out)}
    emit(
        result,
        f"{out}: {info.name}, {info.license or 'without a license'}; hf upload NAME {out} publishes it",
    )
    return 0


def _write_matcher(model: str, out: Path, weights: str, tool: Contract) -> int:
    described = load(model)
    learned = load_weights(weights, described.id, torch.device("cpu"))
    export_matcher(learned, described.dim if described.kind == "float" else 0, tool, out)
    result = {
        "model": described.id.name,
        "sha256": described.id.sha256,
        "file": str(out),
        "inputs": input_names(tool),
        "outputs": list(OUTPUTS),
        "threshold": learned.threshold,
    }
    emit(result, f"{out}: the matcher graph for {described.id.name}, inputs {', '.join(input_names(tool))}")
    return 0


def _write_page(network: PatchNetwork, out: Path, matcher: Path | None) -> int:
    from patchprint.web.offline import graph_for, write_page

    info, graph = network.info, graph_for(network, matcher)
    megabytes = round(write_page(network, out, graph) / 1e6, 3)
    matchers = ["mutual+ratio", *(["graph"] if graph else [])]
    result = {"model": info.name, "sha256": info.sha256, "file": str(out), "megabytes": megabytes, "matchers": matchers}
    emit(result, f"{out}: {info.name}, {megabytes} MB, matchers {' and '.join(matchers)}; open it in a browser")
    return 0


def measure_parity(network: PatchNetwork, path: Path) -> dict[str, float]:
    """Return the largest difference between the descriptors of torch and of each runtime."""
    patches = _smooth_patches(16, network.channels, network.input_size)
    with torch.no_grad():
        raw = network.forward_features(patches, with_maps=False)[0]
        expected = network.head(raw)
    # A sign is not defined where the raw value is as small as the rounding of two runtimes.
    certain = raw.abs() > 1e-4 * raw.abs().max() if network.kind == "binary" else torch.ones_like(raw, dtype=torch.bool)
    errors = {}
    for runtime in RUNTIMES:
        alone = run_onnx(path, patches[:1], runtime)
        batch = run_onnx(path, patches, runtime)
        differences = torch.cat([alone - expected[:1], batch - expected]).abs()
        errors[runtime] = float(differences[torch.cat([certain[:1], certain])].max())
    return errors


def _smooth_patches(count: int, channels: int, size: int) -> Tensor:
    """Return fixed smooth patches, (count, channels, size, size) in [0, 1]."""
    noise = torch.rand(count, channels, 8, 8, generator=torch.Generator().manual_seed(0))
    return F.interpolate(noise, size=(size, size), mode="bilinear", align_corners=False)

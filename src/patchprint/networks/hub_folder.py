"""Weights as a folder for the Hugging Face Hub: ``model.safetensors``, ``config.json`` and a model card, ``README.md``."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError
from patchprint.common.files import atomic_folder, write_json, write_text
from patchprint.networks.network import ModelInfo
from patchprint.networks.weights import MEASURED, find_file, read_info

_FILE = "model.safetensors"
_MADE_BY = "patchprint export"


def write_folder(model: str | Path, out: str | Path, force: bool = False) -> ModelInfo:
    """Write a folder for the Hub.

    Args:
        model: the name of shipped weights, or a weight file that patchprint wrote.
        force: replace a folder that this wrote before.
    """
    path = find_file(model)
    if path.suffix != ".safetensors":
        raise UserError(f"{path} is no weight file of patchprint (.safetensors), which the Hub gets as it is")
    info = read_info(path)
    with atomic_folder(out, _MADE_BY, force) as folder:
        shutil.copyfile(path, folder / _FILE)
        write_json(folder / "config.json", {"library_name": "patchprint", **dataclasses.asdict(info)})
        write_text(folder / "README.md", model_card(info))
    return info


def model_card(info: ModelInfo) -> str:
    """A model card in Markdown, with its header in YAML (every line of which is JSON too)."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))["models"].get(info.name, {})
    header: dict[str, Any] = {
        "library_name": "patchprint",
        "license": info.license.partition(" ")[0].lower() or "unknown",
        "pipeline_tag": "image-feature-extraction",
        "tags": ["local-features", "keypoints", "descriptor", "image-matching", info.network],
    }
    facts = {
        "descriptor": f"{info.dim} {'bits' if info.kind == 'binary' else 'floats, unit length'}",
        "network": f"{info.network} {json.dumps(info.options)}",
        "input": f"{info.input_size} x {info.input_size} pixels, gray" if info.channels == 1 else "images in color",
        "patch": f"{info.patch_scale:g} times as wide as the scale (sigma) of its keypoint",
        "threshold of the ratio test": "not calibrated" if info.ratio is None else f"{info.ratio:g}",
        "sha256 of the weights": info.sha256,
        "license": info.license or "not stated",
        "training data": info.training.data or "not stated",
        "notes": info.notes or "none",
    }
    if measured.get("sha256") == info.sha256:
        facts["mAP on the six Oxford sequences"] = f"{measured['oxford_map']:.3f}"
    lines = [
        "---",
        *(f"{name}: {json.dumps(value)}" for name, value in header.items()),
        "---",
        "",
        f"# {info.name}",
        "",
    ]
    lines += ["Weights of a local image descriptor for patchprint.", ""]
    lines += ["```python", "import patchprint", "", f'model = patchprint.load("{_FILE}")  # of this folder']
    if info.channels == 1:
        lines += ['a, b = patchprint.extract("a.jpg", model), patchprint.extract("b.jpg", model)']
        lines += ["matches = patchprint.verify(a, b, patchprint.match(a, b))"]
    return "\n".join(
        [*lines, "```", "", "|  |  |", "|---|---|", *(f"| {name} | {text} |" for name, text in facts.items()), ""]
    )

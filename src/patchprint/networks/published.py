"""Networks from weight files that other authors publish: HardNet, SOSNet, HyNet, TFeat, HardTFeat and DesDis."""

import dataclasses
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from patchprint.common.errors import UserError, parsing
from patchprint.common.files import cache_folder
from patchprint.networks.network import PatchNetwork, TrainingRecord, create_like

# File and source of published weights, by name.
PUBLISHED = {
    "tfeat.liberty": ("tfeat-liberty.params", "https://github.com/vbalnt/tfeat"),
    "hardtfeat": ("HardTFeat.pth", "https://github.com/ducha-aiki/affnet"),
    **{f"desdis-{width}": (f"DesDis-{width}.pth", "https://github.com/liuyuzhenn/DesDis") for width in (8, 16, 24, 32)},
}
# Keys by which published files are recognized: of the first convolution and of the layer that sets the dimension; license.
_SIGNATURES = {
    "hardnet": ("features.0.weight", "features.19.weight", "MIT"),
    "sosnet": ("layers.1.weight", "layers.20.weight", "none stated by the authors"),
    "hynet": ("layer1.2.weight", "layer7.1.weight", "MIT"),
    "tfeat": ("features.1.weight", "descr.0.weight", "MIT"),
    "desdis": ("layer1.1.weight", "desc.1.weight", "MIT"),
}


def find(name: str) -> Path:
    """Find the file of a name in `PUBLISHED` in the cache folder, where the user puts it."""
    (file, source), folder = PUBLISHED[name], cache_folder("weights")
    if not (folder / file).is_file():
        raise UserError(f"the weights {name} are not here: put {file} from {source} into {folder}, or give its path")
    return folder / file


def read_pickled(path: Path) -> object:
    """Read a file of ``torch.save`` without running code in it."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as bundle:
                if sum(member.file_size for member in bundle.infolist()) > path.stat().st_size:
                    raise ValueError("it unpacks to more than it holds")
        # From memory, where a forged length cannot ask for more than there is.
        return torch.load(io.BytesIO(path.read_bytes()), map_location="cpu", weights_only=True)
    # Damaged files raise anything (OSError, IndexError, AssertionError, ...), with the advice to load them unsafely.
    except Exception as error:
        raise UserError(f"{path} is damaged or no weight file that can be read safely") from error


def create_network(content: Any, path: Path) -> PatchNetwork:
    """Create the network of a published checkpoint, which `read_pickled` or safetensors gave."""
    state = _unwrap(content)
    if state is None:
        raise UserError(f"{path} holds no weights of a patch network")
    # A tensor may repeat few bytes over any shape.
    if sum(value.numel() * value.element_size() for value in state.values()) > path.stat().st_size:
        raise UserError(f"{path} holds weights that are larger than the file; take the one that its authors publish")
    with parsing(path, "a weight file of a patch network"):
        state, options = _from_hardtfeat(state) if "classifier.1.weight" in state else (state, {})
        fitting = [
            name
            for name, (first, last, _) in _SIGNATURES.items()
            if first in state and last in state and state[first].ndim == 4
        ]
    if not fitting:
        raise UserError(f"{path} holds weights of another network; known files are {', '.join(_SIGNATURES)}")
    name = fitting[0]
    first, last, license = _SIGNATURES[name]
    with parsing(path, f"a weight file that fits network {name!r}"):
        network = create_like(state, name, width=state[first].shape[0], dim=state[last].shape[0], **options)
        counts = {key: value for key, value in network.state_dict().items() if key.endswith("num_batches_tracked")}
        network.load_state_dict(counts | state)
    network.info = dataclasses.replace(
        network.info,
        name=_name_of(path, name),
        license=license,
        training=TrainingRecord(data="see the publisher of the file"),
        notes=f"published weights, read from {path.name}",
    )
    return network


def _unwrap(content: Any) -> dict[str, Tensor] | None:
    """Return the state dict of a checkpoint, without DataParallel's prefix, or None."""
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not content:
        return None
    if not all(isinstance(key, str) and isinstance(value, Tensor) for key, value in content.items()):
        return None
    return {key.removeprefix("module."): value for key, value in content.items()}


def _from_hardtfeat(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Convert HardTFeat to TFeat's keys and options; its linear layer is a convolution, and SIFT is in the file too."""
    names = {"features.0": "features.1", "features.3": "features.4", "classifier.1": "descr.0"}
    renamed = {}
    for key, value in state.items():
        layer, _, kind = key.rpartition(".")
        if not key.startswith("SIFT."):
            renamed[f"{names.get(layer, layer)}.{kind}"] = value.flatten(1) if key == "classifier.1.weight" else value
    return renamed, {"standardize": True}


def _name_of(path: Path, network: str) -> str:
    """Return the name of a published file; that of another ``tfeat-mine.pth`` is ``tfeat.mine``."""
    for known, (file, _) in PUBLISHED.items():
        if file == path.name:
            return known
    tag = path.stem.removeprefix(f"{network}-")
    return path.stem if tag == path.stem else f"{network}.{tag}"

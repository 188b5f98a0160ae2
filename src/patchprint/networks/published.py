"""Weight files that the authors of HardNet, SOSNet, HyNet, TFeat, HardTFeat and DesDis published: which network, which keys.

Some are known by name (``PUBLISHED``): they are not ours to ship, and are used once their file lies in the cache folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.common.files import cache_folder
from patchprint.common.safe_io import parsing
from patchprint.networks.catalog import create_like
from patchprint.networks.network import ModelInfo, PatchNetwork, TrainingRecord

# Keys that only one of the networks has: convolution of the first layer, the layer that sets the dimension, licence of
# the repository that publishes the weights.
_SIGNATURES = {
    "hardnet": ("features.0.weight", "features.19.weight", "MIT"),
    "sosnet": ("layers.1.weight", "layers.20.weight", "none stated by the authors"),
    "hynet": ("layer1.2.weight", "layer7.1.weight", "MIT"),
    "tfeat": ("features.1.weight", "descr.0.weight", "MIT"),
    "desdis": ("layer1.1.weight", "desc.1.weight", "MIT"),
}


@dataclass(frozen=True)
class PublishedFile:
    """A weight file of others: what it is called, and where it can be had."""

    file: str
    source: str


PUBLISHED = {
    "tfeat.liberty": PublishedFile("tfeat-liberty.params", "https://github.com/vbalnt/tfeat"),
    "hardtfeat": PublishedFile("HardTFeat.pth", "https://github.com/ducha-aiki/affnet"),
    **{
        f"desdis-{width}": PublishedFile(f"DesDis-{width}.pth", "https://github.com/liuyuzhenn/DesDis")
        for width in (8, 16, 24, 32)
    },
}


def find_published(name: str) -> Path:
    """The file of weights that are known by name, in the folder ``weights`` of the cache."""
    wanted, folder = PUBLISHED[name], cache_folder("weights")
    if not (folder / wanted.file).is_file():
        raise UserError(
            f"the weights {name} are published by others and not here: put {wanted.file} from {wanted.source} into {folder}, "
            "or give the path of the file"
        )
    return folder / wanted.file


def network_from_published(content: Any, path: Path) -> PatchNetwork:
    """Build the network whose weights ``content`` (what torch.load gave) holds, in evaluation mode, or raise ValueError."""
    state = _unwrap(content)
    if state is None:
        raise UserError(f"{path} holds no weights of a patch network")
    # A tensor may repeat few bytes over any shape.
    if sum(value.numel() * value.element_size() for value in state.values()) > path.stat().st_size:
        raise UserError(f"{path} holds weights that are larger than the file; take the one that its authors publish")
    with parsing(path, "a weight file of a patch network"):
        state, options = _from_hardtfeat(state) if "classifier.1.weight" in state else (state, {})
        name = _recognize(state)
    if name is None:
        raise UserError(f"{path} holds weights of another network; known files are {', '.join(_SIGNATURES)}")
    first, last, license = _SIGNATURES[name]
    with parsing(path, f"a weight file that fits network {name!r}"):
        network = create_like(state, name, width=state[first].shape[0], dim=state[last].shape[0], **options)
        counts = {key: value for key, value in network.state_dict().items() if key.endswith("num_batches_tracked")}
        network.load_state_dict(counts | state)
    network.info = ModelInfo(
        name=_name_of(path, name),
        network=name,
        options=network.info.options,
        dim=network.dim,
        kind=network.kind,
        input_size=network.input_size,
        license=license,
        training=TrainingRecord(data="see the publisher of the file"),
        notes=f"published weights, read from {path.name}",
    )
    return network.eval()


def _unwrap(content: Any) -> dict[str, Tensor] | None:
    """Take the state dict out of a checkpoint and the prefix of DataParallel off its keys."""
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not content:
        return None
    if not all(isinstance(key, str) and isinstance(value, Tensor) for key, value in content.items()):
        return None
    return {key.removeprefix("module."): value for key, value in content.items()}


def _from_hardtfeat(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """HardTFeat under TFeat's keys, and the options that make it: its linear layer is a convolution over the whole map, and the
    file also holds the SIFT that it was trained beside."""
    names = {"features.0": "features.1", "features.3": "features.4", "classifier.1": "descr.0"}
    renamed = {}
    for key, value in state.items():
        layer, _, kind = key.rpartition(".")
        if not key.startswith("SIFT."):
            renamed[f"{names.get(layer, layer)}.{kind}"] = value.flatten(1) if key == "classifier.1.weight" else value
    return renamed, {"standardize": True}


def _recognize(state: Mapping[str, Tensor]) -> str | None:
    for name, (first, last, _) in _SIGNATURES.items():
        if first in state and last in state and state[first].ndim == 4:
            return name
    return None


def _name_of(path: Path, network: str) -> str:
    """Files that are known have the name that they are known by; of others, ``tfeat-mine.pth`` is ``tfeat.mine``."""
    for known, published in PUBLISHED.items():
        if published.file == path.name:
            return known
    tag = path.stem.removeprefix(f"{network}-")
    return path.stem if tag == path.stem else f"{network}.{tag}"

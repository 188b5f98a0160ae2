"""Load and save trained weights with their metadata.

Weights are safetensors files whose metadata (JSON strings) hold the fields of ``ModelInfo``; the package's own are
``patchprint/networks/pretrained/NAME.safetensors``. Files of other authors are read too (`published`).
"""

import dataclasses
import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save as serialize
from torch import Tensor

from patchprint.common.errors import UserError, parsing, suggest
from patchprint.common.files import atomic_file
from patchprint.networks.network import NETWORKS, ModelInfo, PatchNetwork, TrainingRecord, create_like

WEIGHTS_FOLDER = Path(__file__).resolve().parent / "pretrained"
# Scores and speed of the shipped weights; ``python -m tools.tables`` makes it from the results in the repository.
MEASURED = WEIGHTS_FOLDER / "measured.json"
_FORMAT = "patchprint"
_WHAT = "a safetensors file"
_SUFFIXES = (".safetensors", ".pth", ".pt", ".params")
# Names of weights before the first release: what they are called now, or what took their place.
_RENAMED = {f"sdgmnet.{form}": f"patchprint.{form}" for form in ("fast", "tiny", "bits")}
_GONE = {
    "sdgmnet.large": "patchprint", "sdgmnet.64": "patchprint.fast", "sdgmnet.32": "patchprint.bits",
    "sdgmnet.plain": "sdgmnet", "hardnet.small": "patchprint.fast",
}  # fmt: skip


def load_network(
    name_or_file: str | Path, device: torch.device | str = "cpu", also_known: Iterable[str] = ()
) -> PatchNetwork:
    """Load a trained network in evaluation mode.

    Args:
        name_or_file: name of shipped weights (``"patchprint"``) or published ones (``"desdis-32"``), or a weight file.
        device: device of the network.
        also_known: further names to suggest for an unknown one.
    """
    path = find_file(name_or_file, also_known)
    with open(path, "rb") as stream:
        has_header = stream.read(9)[8:] == b"{"  # of safetensors: eight bytes of length, then a JSON object
    if path.suffix == ".safetensors" or has_header:
        network = _load_safetensors(path)
    else:
        from patchprint.networks import published

        network = published.create_network(published.read_pickled(path), path)
    if not network.info.sha256:
        network.info = dataclasses.replace(network.info, sha256=weights_sha256(network.state_dict()))
    return network.eval().to(device)


def weight_names() -> list[str]:
    """Return the names of the weights that come with the package, sorted."""
    return sorted(path.stem for path in WEIGHTS_FOLDER.glob("*.safetensors"))


def list_weights() -> list[ModelInfo]:
    """Return the metadata of the weights that come with the package, sorted by name."""
    return [read_info(WEIGHTS_FOLDER / f"{name}.safetensors") for name in weight_names()]


def save(network: PatchNetwork, path: str | Path, info: ModelInfo | None = None, half: bool = False) -> ModelInfo:
    """Write a network and its metadata as safetensors, and return the metadata with the checksum.

    Args:
        info: metadata, by default the network's own; what the network itself knows is taken from the network.
        half: store weights of convolutions and linear layers as float16.
    """
    if not network.info.network:
        kind = type(network).__name__
        raise UserError(f"a {kind} that was made by its class could not be loaded again; use networks.create")
    state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    if half:
        kernels = {name for name in state if name.endswith("weight") and state[name].ndim >= 2 and len(state[name]) > 1}
        state = {name: value.half() if name in kernels else value for name, value in state.items()}
    info = dataclasses.replace(
        info or network.info,
        network=network.info.network,
        options=network.info.options,
        dim=network.dim,
        kind=network.kind,
        input_size=network.input_size,
        channels=network.channels,
        sha256=weights_sha256(state),
    )
    _write(path, state, info)
    return info


def read_info(path: str | Path) -> ModelInfo:
    """Read the metadata of a safetensors file, without its weights."""
    with parsing(path, _WHAT), safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
    if metadata.get("format") != _FORMAT:
        raise UserError(f"{path} was not written by patchprint")
    known = {field.name for field in dataclasses.fields(ModelInfo)}
    with parsing(path, "a weight file with complete metadata"):
        values = {name: json.loads(text) for name, text in metadata.items() if name in known}
        info = ModelInfo(**{**values, "training": TrainingRecord(**values.get("training", {}))})
        _check_types(info)
        return info


def rewrite_info(path: str | Path, info: ModelInfo) -> None:
    """Replace the metadata of a safetensors file."""
    _, state = read_safetensors(Path(path))
    _write(path, state, dataclasses.replace(info, sha256=weights_sha256(state)))


def weights_sha256(state: Mapping[str, Tensor]) -> str:
    """Compute the checksum of weights: names, types, shapes and bytes in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def to_bytes(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """Serialize to safetensors with sorted metadata, so that equal contents have equal bytes."""
    written = serialize(tensors, metadata=metadata)
    start = 8 + int.from_bytes(written[:8], "little")
    header = json.loads(written[8:start])
    header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # alignment of the tensors
    return len(text).to_bytes(8, "little") + text + written[start:]


def _write(path: str | Path, state: dict[str, Tensor], info: ModelInfo) -> None:
    metadata = {name: json.dumps(value, ensure_ascii=False) for name, value in dataclasses.asdict(info).items()}
    with atomic_file(path) as temporary:
        temporary.write_bytes(to_bytes(state, {"format": _FORMAT, **metadata}))


def read_safetensors(
    path: Path, what: str = _WHAT, remedy: str = "copy or make it again"
) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read metadata and tensors of a safetensors file."""
    with parsing(path, what, remedy), safe_open(path, "pt") as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def find_file(name_or_file: str | Path, also_known: Iterable[str] = ()) -> Path:
    """Return the file of shipped or published weights, or the file itself; raises UserError where there is none."""
    shipped = {path.stem: path for path in WEIGHTS_FOLDER.glob("*.safetensors")}
    if isinstance(name_or_file, str) and (name := _RENAMED.get(name_or_file, name_or_file)) in shipped:
        if name != name_or_file:
            warnings.warn(f"the weights {name_or_file} are called {name} now", FutureWarning, stacklevel=2)
        return shipped[name]
    if name_or_file in _GONE:
        raise UserError(f"the weights {name_or_file} are no longer shipped; take {_GONE[str(name_or_file)]}")
    from patchprint.networks import published

    if isinstance(name_or_file, str) and name_or_file in published.PUBLISHED:
        return published.find(name_or_file)
    path = Path(name_or_file)
    if path.is_file():
        return path
    if path.is_dir():
        raise UserError(f"{path} is a folder, not a weight file")
    if path.suffix in _SUFFIXES or len(path.parts) > 1:
        raise UserError(f"there is no weight file {path}")
    if str(name_or_file) in NETWORKS:
        have = f"weights are there for {', '.join(sorted(shipped))}" if shipped else "no weights are shipped"
        raise UserError(f"network {name_or_file!r} comes without weights; train it or give a file ({have})")
    known = [*shipped, *also_known, *published.PUBLISHED, *NETWORKS]
    raise UserError(f"there is no model {str(name_or_file)!r}; {suggest(str(name_or_file), known)}")


def _check_types(info: ModelInfo) -> None:
    """Raise UserError for metadata of another type than the default's."""
    for record, usual in ((info, ModelInfo("", "")), (info.training, TrainingRecord())):
        for field in dataclasses.fields(record):
            value, kind = getattr(record, field.name), type(getattr(usual, field.name))
            if field.name == "ratio":
                fits = value is None or (isinstance(value, float) and 0 < value <= 1)
            elif kind is float:
                fits = isinstance(value, int | float) and 0 < value < math.inf
            else:
                fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            if not fits:
                raise UserError(f"its {field.name} is {str(value)[:60]!r}, which is none")


def _load_safetensors(path: Path) -> PatchNetwork:
    metadata, state = read_safetensors(path)
    if metadata.get("format") != _FORMAT:
        from patchprint.networks import published

        return published.create_network(state, path)
    info = read_info(path)
    if weights_sha256(state) != info.sha256:
        raise UserError(f"{path} is damaged: the checksum of its weights is not the one it was written with")
    with parsing(path, f"a weight file that fits network {info.network!r}", "take the file that was written with it"):
        network = create_like(state, info.network, **info.options)
        network.load_state_dict(state)
        for name in ("dim", "kind", "input_size", "channels"):
            if getattr(network, name) != getattr(info, name):
                raise UserError(f"its {name} is {getattr(info, name)!r}, the network has {getattr(network, name)!r}")
    network.info = info
    return network

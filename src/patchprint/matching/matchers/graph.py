"""A learned matcher: a small network decides among candidate matches by how well those of neighboring keypoints agree."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open

from patchprint.common.errors import UserError, parsing
from patchprint.common.types import Features, Keypoints, Matches, ModelId
from patchprint.matching.candidate_graph import Frames, GraphNetwork, build_graph, pair_matches

SHIPPED = Path(__file__).resolve().parent.parent / "pretrained" / "graph.safetensors"
FORMAT = "patchprint matcher 1"
_WHAT = "weights of a graph matcher"


@dataclass(frozen=True, eq=False)
class GraphWeights:
    """A trained network, the model whose descriptors it learned, and from which probability on a match is kept."""

    network: GraphNetwork
    model: ModelId
    threshold: float


@dataclass(frozen=True, kw_only=True)
class GraphMatcher:
    """Matches that a network takes for right.

    Attributes:
        threshold: smallest probability of a match; None takes that of the weights.
        weights: a file of ``patchprint train matcher``; empty: those that come with patchprint for the model of the features.
    """

    threshold: float | None = None
    weights: str = ""

    def __call__(self, a: Features, b: Features, device: torch.device) -> Matches:
        if not len(a) or not len(b):
            return Matches(torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0), score=torch.zeros(0))
        for features in (a, b):
            _refuse_without_frames(features.keypoints)
        learned = load_weights(self.weights, a.model, device)
        options = learned.network.options
        with torch.no_grad():
            built = build_graph([(frames_of(a, device), frames_of(b, device))], options)
            indices, logit, distance = pair_matches(learned.network(built), built, options.one_sided)
        score = torch.sigmoid(logit)
        kept = score >= (learned.threshold if self.threshold is None else self.threshold)
        return Matches(indices[kept].cpu(), distance[kept].cpu(), score=score[kept].cpu())


def graph(*, threshold: float | None = None, weights: str = "") -> GraphMatcher:
    """Candidates that a learned network takes for right, by how well those of neighbors agree in place, scale and angle.

    It needs keypoints with scale and angle, and weights for the model of the descriptors (``patchprint train matcher``).
    """
    return GraphMatcher(threshold=threshold, weights=weights)


def frames_of(features: Features, device: torch.device) -> Frames:
    """Keypoints and descriptors of an image on a device."""
    points = features.keypoints
    return Frames(*(each.to(device) for each in (points.xy, points.scale, points.angle, features.descriptors)))


def load_weights(file: str, model: ModelId, device: torch.device) -> GraphWeights:
    """Load weights for the descriptors of a model; raises UserError where there are none."""
    if not file:
        return _shipped(model, device)
    written = Path(file).stat().st_mtime_ns if Path(file).is_file() else 0
    learned = _cached(Path(file), written, device)
    if learned.model.sha256 != model.sha256 or (not model.sha256 and learned.model.name != model.name):
        raise UserError(
            f"{file} was trained on descriptors of {learned.model.name}, not of {model.name} {model.sha256[:8]}; "
            "train it again with patchprint train matcher"
        )
    return learned


def _shipped(model: ModelId, device: torch.device) -> GraphWeights:
    known = shipped_models()
    sha256, threshold = known.get(model.name, ("none", 0.0))
    if sha256 != model.sha256:
        raise UserError(
            f"the matcher graph has no weights for descriptors of {model.name} {model.sha256[:8]}, only for those of "
            f"{', '.join(known)}; take another --matcher, or train one (patchprint train matcher)"
        )
    return dataclasses.replace(_cached(SHIPPED, 0, device), model=model, threshold=threshold)


@functools.cache
def shipped_models() -> dict[str, tuple[str, float]]:
    """Models that the shipped weights are for, by name: checksum of the model's weights, and least probability of a match.

    One network serves all: what it is told of descriptors are ratios of distances, which are much the same for all models.
    """
    with safe_open(SHIPPED, "pt") as file:
        models = json.loads(file.metadata()["models"])
    return {name: (str(sha256), float(threshold)) for name, (sha256, threshold) in models.items()}


@functools.lru_cache(maxsize=8)
def _cached(path: Path, written: int, device: torch.device) -> GraphWeights:
    """Read a file once, and again when it was ``written`` anew."""
    return read_weights(path, device)


def read_weights(path: Path, device: torch.device) -> GraphWeights:
    """Read a file of ``patchprint train matcher``."""
    if not path.is_file():
        raise UserError(f"there is no file {path}; expected {_WHAT}")
    with parsing(path, _WHAT), safe_open(path, "pt") as file:
        about = file.metadata() or {}
        if about.get("format") != FORMAT:
            raise UserError(f"{path} does not hold {_WHAT} that this version reads")
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        network = GraphNetwork(**json.loads(about.get("options", "{}")))
        network.load_state_dict(state)
        model = ModelId(about["model"], about["model_sha256"])
        threshold = float(about["threshold"])
        if not 0 <= threshold <= 1:
            raise UserError(f"{path} has the threshold {threshold:g}, which is no probability")
        return GraphWeights(network.eval().to(device), model, threshold)


def _refuse_without_frames(keypoints: Keypoints) -> None:
    if len(keypoints) > 1 and all(float(each.max() - each.min()) == 0 for each in (keypoints.scale, keypoints.angle)):
        raise UserError(
            "the matcher graph needs keypoints with scale and angle, and all of these have the same; take a detector that "
            "finds them, such as dog, or another --matcher"
        )


MATCHERS: dict[str, Callable[..., GraphMatcher]] = {"graph": graph}

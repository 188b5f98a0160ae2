"""A learned matcher: a small network decides among candidate matches by how well those of neighboring keypoints agree."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open

from patchprint.common.devices import supports_triton
from patchprint.common.errors import UserError, parsing
from patchprint.common.types import Features, Keypoints, Matches, ModelId
from patchprint.matching.candidate_graph import Frames, GraphNetwork, build_graph, pair_matches
from patchprint.matching.local_agreement import local_errors

SHIPPED = Path(__file__).resolve().parent.parent / "pretrained" / "graph.safetensors"
FORMAT = "patchprint matcher 1"
TOLERANCE = 2.0  # pixels
LEAST = 0.05  # probability from which on matches are kept whose place was checked
_WHAT = "weights of a graph matcher"


@dataclass(frozen=True, eq=False)
class GraphWeights:
    """A trained network, the model whose descriptors it learned, and from which probability on a match is kept."""

    network: GraphNetwork
    model: ModelId
    threshold: float


@dataclass(frozen=True, kw_only=True)
class GraphMatcher:
    """Matches that a network takes for right, and that lie where the matches around them predict them.

    Attributes:
        threshold: smallest probability of a match; None takes that of the weights, with a tolerance at most `LEAST`.
        weights: a file of ``patchprint train matcher``; empty: those that come with patchprint for the model of the features.
        tolerance: largest distance in pixels of a match from where the matches around it predict it, to which a thirtieth of
            the distance of these is added (`local_agreement.local_errors`); infinite: all matches are kept.
    """

    threshold: float | None = None
    weights: str = ""
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise UserError(f"the tolerance of the matcher graph must be above 0 pixels, got {self.tolerance:g}")

    def __call__(self, a: Features, b: Features, device: torch.device) -> Matches:
        if not len(a) or not len(b):
            return Matches(torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0), score=torch.zeros(0))
        learned = load_weights(self.weights, a.model, device)
        if learned.network.options.frames:
            for features in (a, b):
                _refuse_without_frames(features.keypoints)
        one, other = frames_of(a, device), frames_of(b, device)
        network, threshold = learned.network, self._threshold(learned)
        if supports_triton(device):
            from patchprint.matching import candidate_graph_kernels as kernels

            if kernels.supports(network.options):
                indices, distance, score = kernels.match_pair(network, one, other, threshold, self.tolerance)
                return Matches(indices, distance, score=score)
        with torch.no_grad():
            built = build_graph([(one, other)], network.options)
            indices, logit, distance = pair_matches(network(built), built, network.options.one_sided)
        score = torch.sigmoid(logit)
        kept = torch.nonzero(score >= threshold)[:, 0]
        if math.isfinite(self.tolerance):
            rows, columns = indices[kept].unbind(1)
            scale = torch.stack([one.scale[rows], other.scale[columns]], 1)
            kept = kept[local_errors(one.xy[rows], other.xy[columns], scale, score[kept]) < self.tolerance]
        return Matches(indices[kept].cpu(), distance[kept].cpu(), score=score[kept].cpu())

    def _threshold(self, learned: GraphWeights) -> float:
        if self.threshold is not None:
            return self.threshold
        return min(learned.threshold, LEAST) if math.isfinite(self.tolerance) else learned.threshold


def graph(*, threshold: float | None = None, weights: str = "", tolerance: float = TOLERANCE) -> GraphMatcher:
    """Candidates that a learned network takes for right, by how well those of neighbors agree in place, scale and angle.

    It needs keypoints with scale and angle, and weights for the model of the descriptors (``patchprint train matcher``).
    """
    return GraphMatcher(threshold=threshold, weights=weights, tolerance=tolerance)


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

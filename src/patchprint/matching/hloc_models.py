"""Register patchprint with hloc: an extractor and a matcher, and configurations of both for the shipped models.

>>> from hloc import extract_features, match_features    # doctest: +SKIP
>>> patchprint.register_with_hloc()                      # doctest: +SKIP
>>> features = extract_features.main(extract_features.confs["patchprint"], images, outputs)    # doctest: +SKIP
>>> graph = match_features.confs["patchprint+graph"]    # doctest: +SKIP
>>> matches = match_features.main(graph, pairs, features.stem, outputs)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.common.types import Features, Keypoints
from patchprint.detectors import MAX_KEYPOINTS
from patchprint.features.extract import extract
from patchprint.features.model import DEFAULT_MODEL, LOWE_RATIO, NetworkModel, list_models, load
from patchprint.interop.hloc import descriptor_vectors
from patchprint.matching.matchers import match
from patchprint.matching.matchers.graph import shipped_models
from patchprint.ops.distances import pack_bits

_DEFAULTS = {"detector": "dog", "max_keypoints": MAX_KEYPOINTS, "upright": False, "spread": True}


def register_with_hloc() -> list[str]:
    """Register extractor, matcher and configurations with hloc; returns the names of models, the same in
    ``extract_features.confs`` and in ``match_features.confs`` (mutual nearest neighbors that pass the ratio test calibrated
    for the model). Models for which there is a graph matcher have ``NAME+graph`` in ``match_features.confs`` too.

    Settings of an extractor's ``model`` are those of ``patchprint.extract``: model (a name or a weight file), detector,
    max_keypoints, upright, spread; those of a matcher's: model, and matcher (a name, or a file of weights).
    """
    try:
        extraction, matching, base = (
            importlib.import_module(f"hloc.{name}")
            for name in ("extract_features", "match_features", "utils.base_model")
        )
    except ModuleNotFoundError as error:
        raise UserError(f"hloc needs {error.name}; install github.com/cvg/Hierarchical-Localization") from None
    for kind, make in (("extractors", _extractor_class), ("matchers", _matcher_class)):
        module: Any = types.ModuleType(f"hloc.{kind}.patchprint", __doc__)  # where hloc looks for the name "patchprint"
        module.Patchprint = make(base.BaseModel)
        module.Patchprint.__module__ = module.__name__
        sys.modules[module.__name__] = module
    names = []
    for info in list_models():
        name = info.name if info.name.startswith(DEFAULT_MODEL) else f"patchprint-{info.name}"
        extraction.confs[name] = {
            "output": f"feats-{name}-n{MAX_KEYPOINTS}",
            "model": {"name": "patchprint", "model": info.name},
            "preprocessing": {"grayscale": True},
        }
        matcher = {"name": "nearest_neighbor", "do_mutual_check": True, "ratio_threshold": info.ratio or LOWE_RATIO}
        matching.confs[name] = {"output": f"matches-{name}", "model": matcher}
        if info.name in shipped_models():
            graph = {"name": "patchprint", "model": info.name, "matcher": "graph"}
            matching.confs[f"{name}+graph"] = {"output": f"matches-{name}-graph", "model": graph}
        names.append(name)
    return names


def _extractor_class(base: type) -> type:
    """Make the extractor class: its base class is hloc's, and hloc expects it in a module that has no other."""

    class Patchprint(base):
        default_conf = {"model": DEFAULT_MODEL, **_DEFAULTS}  # noqa: RUF012 - hloc's own way
        required_inputs = ["image"]  # noqa: RUF012

        def _init(self, conf: dict[str, Any]) -> None:
            self.describer = load(conf["model"])
            if isinstance(self.describer, NetworkModel):
                self.network = self.describer.network  # so that hloc moves it to its device

        def _forward(self, data: dict[str, Tensor]) -> dict[str, Tensor]:
            pixels = (data["image"][0, 0].cpu() * 255).round().to(torch.uint8).numpy()
            features = extract(pixels, self.describer, **{name: self.conf[name] for name in _DEFAULTS})
            keypoints = features.keypoints
            score = keypoints.scale if keypoints.score is None else keypoints.score
            return {
                # hloc stores float32 in half precision, which moves keypoints of large images by a pixel.
                "keypoints": keypoints.xy[None].double(),
                "scales": keypoints.scale[None],
                "oris": keypoints.angle.rad2deg()[None],
                "scores": score[None],
                "descriptors": torch.from_numpy(descriptor_vectors(features).T.copy())[None],
            }

    return Patchprint


def _matcher_class(base: type) -> type:
    """Make the matcher class."""

    class Patchprint(base):
        default_conf = {"model": DEFAULT_MODEL, "matcher": "graph"}  # noqa: RUF012
        required_inputs = [  # noqa: RUF012
            f"{name}{side}" for side in (0, 1) for name in ("image", "keypoints", "scales", "oris", "descriptors")
        ]

        def _init(self, conf: dict[str, Any]) -> None:
            self.describer = load(conf["model"])

        def _forward(self, data: dict[str, Tensor]) -> dict[str, Tensor]:
            a, b = self._features(data, 0), self._features(data, 1)
            device = data["descriptors0"].device
            found = match(a, b, self.conf["matcher"], device=device)
            partner = torch.full((1, len(a)), -1)
            score = torch.zeros(1, len(a))
            partner[0, found.indices[:, 0]] = found.indices[:, 1]
            score[0, found.indices[:, 0]] = 1 / (1 + found.distance) if found.score is None else found.score
            return {"matches0": partner.to(device), "matching_scores0": score.to(device)}

        def _features(self, data: dict[str, Tensor], side: int) -> Features:
            xy, scale, degrees, descriptors = (
                data[f"{name}{side}"][0].float().cpu() for name in ("keypoints", "scales", "oris", "descriptors")
            )
            vectors = pack_bits(descriptors.T) if self.describer.kind == "binary" else descriptors.T.contiguous()
            height, width = data[f"image{side}"].shape[-2:]
            keypoints = Keypoints(xy, scale, degrees.deg2rad())
            return Features(keypoints, vectors, (width, height), None, self.describer.id, self.describer.ratio)

    return Patchprint

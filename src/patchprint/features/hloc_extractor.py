"""Register patchprint with hloc: an extractor, and a configuration for each shipped model.

>>> from hloc import extract_features, match_features    # doctest: +SKIP
>>> patchprint.register_with_hloc()                      # doctest: +SKIP
>>> features = extract_features.main(extract_features.confs["patchprint-sdgmnet"], images, outputs)    # doctest: +SKIP
>>> matches = match_features.main(match_features.confs["patchprint-sdgmnet"], pairs, features.stem, outputs)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.detectors import MAX_KEYPOINTS
from patchprint.features.extract import extract
from patchprint.features.model import DEFAULT_MODEL, LOWE_RATIO, NetworkModel, list_models, load
from patchprint.interop.hloc import descriptor_vectors

MODULE = "hloc.extractors.patchprint"
_DEFAULTS = {"detector": "dog", "max_keypoints": MAX_KEYPOINTS, "upright": False, "spread": True}


def register_with_hloc() -> list[str]:
    """Register extractor and configurations with hloc; returns their names, the same in ``extract_features.confs`` and in
    ``match_features.confs`` (mutual nearest neighbors that pass the ratio test calibrated for the model).

    Settings of a configuration's ``model`` are those of ``patchprint.extract``: model (a name or a weight file), detector,
    max_keypoints, upright, spread.
    """
    try:
        extraction, matching, base = (
            importlib.import_module(f"hloc.{name}")
            for name in ("extract_features", "match_features", "utils.base_model")
        )
    except ModuleNotFoundError as error:
        raise UserError(f"hloc needs {error.name}; install github.com/cvg/Hierarchical-Localization") from None
    module: Any = types.ModuleType(MODULE, __doc__)
    module.Patchprint = _extractor_class(base.BaseModel)
    sys.modules[MODULE] = module  # where hloc looks for an extractor of the name "patchprint"
    names = []
    for info in list_models():
        name = f"patchprint-{info.name}"
        extraction.confs[name] = {
            "output": f"feats-{name}-n{MAX_KEYPOINTS}",
            "model": {"name": "patchprint", "model": info.name},
            "preprocessing": {"grayscale": True},
        }
        matcher = {"name": "nearest_neighbor", "do_mutual_check": True, "ratio_threshold": info.ratio or LOWE_RATIO}
        matching.confs[name] = {"output": f"matches-{name}", "model": matcher}
        names.append(name)
    return names


def _extractor_class(base: type) -> type:
    """Make the extractor class: its base class is hloc's, and hloc expects it in a module of its own."""

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

    Patchprint.__module__ = MODULE
    return Patchprint

"""patchprint: learn, measure and use local image descriptors.

>>> model = patchprint.load("sdgmnet")          # doctest: +SKIP
>>> a = patchprint.extract("a.jpg", model)      # doctest: +SKIP
>>> b = patchprint.extract("b.jpg", model)      # doctest: +SKIP
>>> m = patchprint.match(a, b)                  # doctest: +SKIP
>>> patchprint.draw(a, b, m, "matches.png")     # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchprint import (
        benchmarks as benchmarks,
        common as common,
        data as data,
        detectors as detectors,
        features as features,
        interop as interop,
        losses as losses,
        matching as matching,
        metrics as metrics,
        networks as networks,
        ops as ops,
        pipelines as pipelines,
        storage as storage,
        training as training,
        types as types,
    )
    from patchprint.common.errors import UserError as UserError
    from patchprint.common.provenance import Result as Result
    from patchprint.data import open_source as open_source
    from patchprint.detectors import detect as detect
    from patchprint.features import (
        Model as Model,
        describe as describe,
        draw as draw,
        list_models as list_models,
        load as load,
    )
    from patchprint.features.compress import compress as compress
    from patchprint.features.extract import extract as extract
    from patchprint.features.feature2d import Feature2D as Feature2D
    from patchprint.features.hloc_extractor import register_with_hloc as register_with_hloc
    from patchprint.features.laf_descriptor import LAFDescriptor as LAFDescriptor
    from patchprint.losses import DescriptorBatch as DescriptorBatch
    from patchprint.matching import match as match, verify as verify
    from patchprint.matching.calibration import calibrate as calibrate
    from patchprint.pipelines.adaptation import adapt as adapt
    from patchprint.pipelines.training_run import train as train
    from patchprint.types import Features as Features, Keypoints as Keypoints, Matches as Matches

__version__ = "0.1.0"

# Public names by module, imported on first use, so that importing patchprint stays cheap. A test compares them with the
# imports above, which editors and type checkers read.
_NAMES = {
    "patchprint.common.errors": ("UserError",),
    "patchprint.common.provenance": ("Result",),
    "patchprint.data": ("open_source",),
    "patchprint.detectors": ("detect",),
    "patchprint.features": ("Model", "describe", "draw", "list_models", "load"),
    "patchprint.matching.calibration": ("calibrate",),
    "patchprint.features.compress": ("compress",),
    "patchprint.features.extract": ("extract",),
    "patchprint.features.feature2d": ("Feature2D",),
    "patchprint.features.hloc_extractor": ("register_with_hloc",),
    "patchprint.features.laf_descriptor": ("LAFDescriptor",),
    "patchprint.losses": ("DescriptorBatch",),
    "patchprint.matching": ("match", "verify"),
    "patchprint.pipelines.adaptation": ("adapt",),
    "patchprint.pipelines.training_run": ("train",),
    "patchprint.types": ("Features", "Keypoints", "Matches"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
_PACKAGES = (
    "benchmarks", "common", "data", "detectors", "features", "interop", "losses", "matching", "metrics", "networks", "ops",
    "pipelines", "storage", "training", "types",
)  # fmt: skip

__all__ = ["__version__", *_MODULE_OF, *_PACKAGES]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"patchprint.{name}")
    raise AttributeError(f"module 'patchprint' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

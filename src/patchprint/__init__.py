"""patchprint: learn, measure and use local patch descriptors.

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
    )
    from patchprint import (
        detectors as detectors,
    )
    from patchprint import (
        losses as losses,
    )
    from patchprint import (
        metric_learning as metric_learning,
    )
    from patchprint import (
        metrics as metrics,
    )
    from patchprint import (
        networks as networks,
    )
    from patchprint import (
        patches as patches,
    )
    from patchprint import (
        training as training,
    )
    from patchprint.detectors import detect as detect
    from patchprint.errors import UserError as UserError
    from patchprint.features import (
        Model as Model,
    )
    from patchprint.features import (
        describe as describe,
    )
    from patchprint.features import (
        draw as draw,
    )
    from patchprint.features import (
        list_models as list_models,
    )
    from patchprint.features import (
        load as load,
    )
    from patchprint.features import (
        match as match,
    )
    from patchprint.features import (
        verify as verify,
    )
    from patchprint.features.calibration import calibrate as calibrate
    from patchprint.features.compress import compress as compress
    from patchprint.features.extract import extract as extract
    from patchprint.features.feature2d import Feature2D as Feature2D
    from patchprint.features.hloc_extractor import register_with_hloc as register_with_hloc
    from patchprint.features.laf_descriptor import LAFDescriptor as LAFDescriptor
    from patchprint.patches import open_source as open_source
    from patchprint.pipelines.adapt import adapt as adapt
    from patchprint.training import train as train
    from patchprint.types import (
        DescriptorBatch as DescriptorBatch,
    )
    from patchprint.types import (
        Features as Features,
    )
    from patchprint.types import (
        Keypoints as Keypoints,
    )
    from patchprint.types import (
        Matches as Matches,
    )
    from patchprint.types import (
        Result as Result,
    )

__version__ = "0.1.0"

# Public names and where they live; loaded on first use, so that importing patchprint stays cheap. The imports above say the
# same to editors and type checkers, and a test compares the two.
_NAMES = {
    "patchprint.detectors": ("detect",),
    "patchprint.errors": ("UserError",),
    "patchprint.features": ("Model", "describe", "draw", "list_models", "load", "match", "verify"),
    "patchprint.features.calibration": ("calibrate",),
    "patchprint.features.compress": ("compress",),
    "patchprint.features.extract": ("extract",),
    "patchprint.features.feature2d": ("Feature2D",),
    "patchprint.features.hloc_extractor": ("register_with_hloc",),
    "patchprint.features.laf_descriptor": ("LAFDescriptor",),
    "patchprint.patches": ("open_source",),
    "patchprint.pipelines.adapt": ("adapt",),
    "patchprint.training": ("train",),
    "patchprint.types": ("DescriptorBatch", "Features", "Keypoints", "Matches", "Result"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
_ROOMS = ("benchmarks", "detectors", "losses", "metric_learning", "metrics", "networks", "patches", "training")

__all__ = ["__version__", *_HOME, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"patchprint.{name}")
    raise AttributeError(f"module 'patchprint' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""patchprint: learn, measure and use local patch descriptors.

>>> model = patchprint.load("sdgmnet")          # doctest: +SKIP
>>> a = patchprint.extract("a.jpg", model)      # doctest: +SKIP
>>> b = patchprint.extract("b.jpg", model)      # doctest: +SKIP
>>> m = patchprint.match(a, b, ratio=model.info.ratio)  # doctest: +SKIP
>>> patchprint.draw(a, b, m, "matches.png")     # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public names and where they live; loaded on first use, so that importing patchprint stays cheap.
_PUBLIC = {
    "Keypoints": "patchprint.types",
    "Features": "patchprint.types",
    "Matches": "patchprint.types",
    "DescriptorBatch": "patchprint.types",
    "Result": "patchprint.types",
    "load": "patchprint.networks.weights:load_network",
    "list_models": "patchprint.networks.weights:list_weights",
    "extract": "patchprint.features",
    "match": "patchprint.features",
    "verify": "patchprint.features",
    "draw": "patchprint.features",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        module, _, attribute = _PUBLIC[name].partition(":")
        return getattr(importlib.import_module(module), attribute or name)
    raise AttributeError(f"module 'patchprint' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

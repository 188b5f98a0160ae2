"""patchprint: train, evaluate and use local image descriptors.

>>> model = patchprint.load("patchprint")          # doctest: +SKIP
>>> a = patchprint.extract("a.jpg", model)      # doctest: +SKIP
>>> b = patchprint.extract("b.jpg", model)      # doctest: +SKIP
>>> m = patchprint.match(a, b)                  # doctest: +SKIP
>>> patchprint.draw(a, b, m, "matches.png")     # doctest: +SKIP
"""

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# Public names by module, imported on first use, so that importing patchprint stays cheap; type checkers read the same file.
_HOMES = {
    alias.name: str(node.module)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'patchprint' has no attribute {name!r}")
    if _HOMES[name] == __name__:
        return importlib.import_module(f"{__name__}.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__

"""Optional packages: imported where they are used, with an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from patchprint.errors import MissingPackageError


def require(module: str, extra: str) -> Any:
    """Import ``module``, or raise MissingPackageError naming the patchprint extra that brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise MissingPackageError(f"this needs the package {module!r}: pip install 'patchprint[{extra}]'") from error

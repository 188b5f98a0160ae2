"""Optional packages: imported where they are used, with an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from patchprint.common.errors import MissingPackageError


def require(module: str, extra: str | None) -> Any:
    """Import ``module``, or raise MissingPackageError naming the patchprint extra that brings it, if one does."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if error.name is not None and error.name.split(".")[0] != package:
            raise
        install = package if extra is None else f"'patchprint[{extra}]'"
        raise MissingPackageError(f"this needs the package {module!r}: pip install {install}") from error

"""Optional packages: imported where they are used, with an error that says what to install, and without telemetry."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

from patchprint.common.errors import MissingPackageError

# Modules through which a package reports to its makers that it was imported; each package works without.
_TELEMETRY = {"openvino": "openvino_telemetry"}


def require(module: str, extra: str | None) -> Any:
    """Import ``module``, or raise MissingPackageError naming the patchprint extra that brings it, if one does."""
    package = module.split(".")[0]
    try:
        with _without_telemetry(package):
            found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != package:
            raise
        install = package if extra is None else f"'patchprint[{extra}]'"
        raise MissingPackageError(f"this needs the package {module!r}: pip install {install}") from error
    if module == "onnxruntime":
        found.disable_telemetry_events()  # of the builds for Windows; others have none
    return found


@contextlib.contextmanager
def _without_telemetry(package: str) -> Iterator[None]:
    """Make the telemetry of a package look uninstalled while the package is imported for the first time."""
    reporter = _TELEMETRY.get(package)
    if reporter is None or reporter in sys.modules or package in sys.modules:
        yield
        return
    sys.modules[reporter] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[reporter]

"""Optional packages: imported where they are used, with an error that says what to install, and without telemetry."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from patchprint.common.errors import MissingPackageError

# How packages are told not to report to their makers; for all at once, since they import one another.
_OPT_OUTS = {"ORT_DISABLE_TELEMETRY": "1", "RAY_USAGE_STATS_ENABLED": "0"}
# Modules through which a package that cannot be told reports that it was imported; it works without them.
_TELEMETRY = {"openvino": "openvino_telemetry"}


def require(module: str, extra: str | None) -> Any:
    """Import ``module``, or raise MissingPackageError naming the patchprint extra that brings it, if one does."""
    package = module.split(".")[0]
    for name, value in _OPT_OUTS.items():
        os.environ.setdefault(name, value)
    try:
        with _without_telemetry(package):
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != package:
            raise
        install = package if extra is None else f"'patchprint[{extra}]'"
        raise MissingPackageError(f"this needs the package {module!r}: pip install {install}") from error


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

"""Which models can be chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchprint.common.errors import UserError
from patchprint.features.model import DEFAULT_MODEL, list_models, load


def offered(given: Sequence[str | Path]) -> tuple[dict[str, str], dict[str, float | None]]:
    """What can be chosen, as `Desk` wants it, and the ratio of each: weight files by their names, then shipped models."""
    known: dict[str, str] = {}
    ratios: dict[str, float | None] = {}
    for path in map(Path, given):
        if path.stem in known:
            raise UserError(f"two weight files are called {path.stem}; rename one of them")
        known[path.stem], ratios[path.stem] = str(path.resolve()), load(path).ratio
    for info in sorted(list_models(), key=lambda info: info.name != DEFAULT_MODEL):
        known.setdefault(info.name, info.name)
        ratios.setdefault(info.name, info.ratio)
    return known, ratios

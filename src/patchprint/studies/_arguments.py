"""What is typed after ``--data`` and ``--set``, as the options of a study."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError
from patchprint.training.resolving import read_options


def read_sets(words: Iterable[str]) -> dict[str, tuple[Path, ...]]:
    """NAME=PATH words; commas join several stores to one set."""
    sets: dict[str, tuple[Path, ...]] = {}
    for word in words:
        name, separator, paths = word.partition("=")
        if not separator or not name or not paths:
            raise UserError(f"--data is written NAME=PATH, not {word!r}")
        if name in sets:
            raise UserError(f"--data names {name} twice; commas join several stores: {name}=A,B")
        sets[name] = tuple(map(Path, paths.split(",")))
    return sets


def read_changes(words: Iterable[str]) -> dict[str, Any]:
    """SETTING=VALUE words; a dot leads to an option: network_options.width=8."""
    changes: dict[str, Any] = {}
    for name, value in read_options(words).items():
        setting, separator, option = name.partition(".")
        if separator:
            changes.setdefault(setting, {})[option] = value
        else:
            changes[setting] = value
    return changes

"""Registries whose every member takes a second or two: some are asked in ``make test-fast``, all in ``make test``."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_but(fast: Collection[str], names: Iterable[str]) -> list[Any]:
    """Parameters of a test; those that are not in ``fast`` are marked slow."""
    names = list(names)
    assert set(fast) <= set(names), f"there is no {set(fast) - set(names)}"
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]

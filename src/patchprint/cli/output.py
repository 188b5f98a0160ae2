"""stdout carries the result, as JSON or as text for people; stderr carries everything else."""

from __future__ import annotations

import json
import sys
from typing import Any


def emit(result: Any, as_json: bool, text: str) -> None:
    """Print ``result`` as JSON, or ``text`` for people."""
    print(json.dumps(result, indent=2, ensure_ascii=False) if as_json else text)


def say(message: str) -> None:
    """Print a line for people, on stderr."""
    print(message, file=sys.stderr)

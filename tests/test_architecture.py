"""docs/architecture.md is the truth about the house: its drawing is what import-linter checks, its rooms are the folders."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import patchprint

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="docs/ is not in this copy of the repository")


def rooms() -> set[str]:
    """Folders and modules of the package."""
    root = Path(patchprint.__file__).parent
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    return folders | {path.stem for path in root.glob("*.py")} - {"__init__", "__main__"}


def drawing() -> list[list[str]]:
    block = PAGE.read_text(encoding="utf-8").split("```")[1]
    return [re.split(r"\s+\|\s+", re.split(r"\s{3,}", line)[0].strip()) for line in block.strip().splitlines()]


def test_the_drawing_is_what_import_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert [layer.split(" | ") for layer in layers] == drawing()


def test_every_room_is_in_the_drawing_and_in_the_table() -> None:
    assert {room for layer in drawing() for room in layer} == rooms()
    table = PAGE.read_text(encoding="utf-8").split("## Rooms")[1].split("## The way")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == rooms()


def test_every_name_on_the_page_exists() -> None:
    """Dotted names in code are modules, or attributes of modules, of the package."""
    import importlib

    text = PAGE.read_text(encoding="utf-8")
    heads = "|".join(sorted(rooms()))
    for name in sorted(set(re.findall(rf"\b(?:{heads})\.[A-Za-z_][\w.]*\w", text))):
        if name.endswith((".json", ".jsonl", ".py", ".toml", ".safetensors")):
            continue
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(["patchprint", *parts[:cut]]))
            except ModuleNotFoundError:
                continue
            for attribute in parts[cut:]:
                assert hasattr(found, attribute), name
                found = getattr(found, attribute)
            break

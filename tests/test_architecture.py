"""docs/architecture.md shows the layers that import-linter checks, and every package."""

import re
import tomllib
from pathlib import Path

import pytest

import patchprint

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="docs/ is not in this copy of the repository")


def packages() -> set[str]:
    """Packages and modules at the top level."""
    root = Path(patchprint.__file__).parent
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    return folders | {path.stem for path in root.glob("*.py")} - {"__init__", "__main__"}


def drawing() -> list[str]:
    block = PAGE.read_text(encoding="utf-8").split("```")[1]
    return [re.split(r"\s{3,}", line)[0].strip() for line in block.strip().splitlines()]


def test_drawing_equals_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert layers == drawing()


def test_every_package_is_in_the_drawing_and_in_the_table() -> None:
    assert {package for layer in drawing() for package in re.split(r" [|:] ", layer)} == packages()
    table = PAGE.read_text(encoding="utf-8").split("## Packages")[1].split("## Data flow")[0]
    assert set(re.findall(r"(?m)^\| `(\w+)` \|", table)) == packages()

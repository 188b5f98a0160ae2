"""Every promise names the tests that back it, and they exist; so do those that other evidence names."""

import ast
import re

import pytest

from support.checkout import ROOT

PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "evidence").glob("*.md")}
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", "".join(PAGES.values()))))
ROWS = [
    line for line in PAGES["promises.md"].splitlines() if line.startswith("| ") and not line.startswith("| promise ")
]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_the_test_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name.startswith("test_") and name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS)
def test_every_promise_has_a_test(row: str) -> None:
    assert re.fullmatch(r"\| [^|]+\.? \| (`tests/[^`]+`(, )?)+ \|", row), row

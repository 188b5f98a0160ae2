"""Every promise names the tests that back it, and they exist."""

from __future__ import annotations

import ast
import re

import pytest

from support.checkout import ROOT

PAGE = (ROOT / "docs" / "evidence" / "promises.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| promise ")]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_the_test_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name.startswith("test_") and name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS)
def test_every_promise_has_a_test(row: str) -> None:
    assert re.fullmatch(r"\| [^|]+\.? \| (`tests/[^`]+`(, )?)+ \|", row), row

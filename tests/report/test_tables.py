"""Tables in the documentation come from results/, and those in the README are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchprint.report import tables

ROOT = Path(__file__).resolve().parents[2]


def test_fill_replaces_only_what_stands_between_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tables.TABLES, "oxford", lambda results: "| new |")
    text = "before\n<!-- begin oxford -->\nold\n<!-- end oxford -->\nafter"
    assert tables.fill(text, ROOT) == "before\n<!-- begin oxford -->\n| new |\n<!-- end oxford -->\nafter"
    with pytest.raises(ValueError, match="no table 'nothing'"):
        tables.fill("<!-- begin nothing -->\n<!-- end nothing -->", ROOT)


def test_readme_is_up_to_date() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "<!-- begin demo -->" in text
    assert tables.fill(text, ROOT / "results") == text

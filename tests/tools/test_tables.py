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


@pytest.mark.parametrize(
    ("name", "one_of_its_tables"),
    [("README.md", "demo"), ("MODELS.md", "shipped"), ("docs/training-log.md", "tries"), ("docs/use.md", "sfm")],
)
def test_documents_are_up_to_date(name: str, one_of_its_tables: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert f"<!-- begin {one_of_its_tables} -->" in text
    assert tables.fill(text, ROOT / "results") == text

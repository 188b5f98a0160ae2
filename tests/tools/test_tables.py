"""Tables in the documentation come from results/ and are up to date."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from patchprint.common.registry import Registry
from tools import tables

ROOT = Path(__file__).resolve().parents[2]


def test_fill_replaces_only_what_stands_between_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TABLES", Registry("table", {"oxford": lambda results: "| new |"}))
    text = "before\n<!-- begin oxford -->\nold\n<!-- end oxford -->\nafter"
    assert tables.fill(text, ROOT) == "before\n<!-- begin oxford -->\n| new |\n<!-- end oxford -->\nafter"
    with pytest.raises(ValueError, match="no table 'nothing'"):
        tables.fill("<!-- begin nothing -->\n<!-- end nothing -->", ROOT)


def save_oxford(folder: Path, name: str, scale: float, score: float) -> None:
    (folder / "oxford").mkdir(exist_ok=True)
    scores = {"map": score, "sequences": {"graf": score}}
    result = {"model": {"name": name, "patch_scale": scale}, "scores": scores}
    (folder / "oxford" / f"{name}-{scale:g}sigma.json").write_text(json.dumps(result))


def test_oxford_shows_each_model_once_at_its_best(tmp_path: Path) -> None:
    for name, scale, score in (("a", 12, 0.3), ("b", 12, 0.2), ("b", 24, 0.6), (tables.OTHER_SEEDS[0], 24, 0.9)):
        save_oxford(tmp_path, name, scale, score)
    lines = tables.oxford(tmp_path).splitlines()
    assert lines[2:4] == ["| b (patch of 24 sigma, its best) | 0.600 | **0.600** |", "| a | 0.300 | **0.300** |"]
    assert tables.OTHER_SEEDS[0] not in "".join(lines)


def documents() -> list[Path]:
    files = [ROOT / "README.md", ROOT / "MODELS.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [file for file in files if "<!-- begin " in file.read_text(encoding="utf-8")]


def test_every_table_stands_in_a_document() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in documents())
    assert [name for name in tables.TABLES if f"<!-- begin {name} -->" not in text] == []


@pytest.mark.parametrize("file", documents(), ids=lambda file: file.name)
def test_documents_are_up_to_date(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert tables.fill(text, ROOT / "results") == text


@pytest.mark.parametrize("name", list(tables.TABLES))
def test_the_caption_is_one_short_line_that_names_existing_results(name: str) -> None:
    _, _, caption = tables.TABLES[name](ROOT / "results").rpartition("\n\n")
    assert "\n" not in caption
    assert len(caption) < 120
    place = re.search(r"results/\S*[^.\s]", caption)
    assert place is not None
    assert list(ROOT.glob(place.group()))


def test_check_reports_a_stale_table_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = "<!-- begin demo -->\nold\n<!-- end demo -->\n"
    (tmp_path / "page.md").write_text(stale)
    command = ["tables", str(tmp_path / "page.md"), "--results", str(ROOT / "results")]
    monkeypatch.setattr(sys, "argv", [*command, "--check"])
    assert tables.main() == 1
    assert "page.md is out of date" in capsys.readouterr().err
    assert (tmp_path / "page.md").read_text() == stale
    monkeypatch.setattr(sys, "argv", command)
    assert tables.main() == 0
    assert "FPR95, held out" in (tmp_path / "page.md").read_text()

"""The HTML page: self-contained and escaped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from patchprint.report.charts import Chart, Line
from patchprint.report.embedded_images import Picture
from patchprint.report.page import Code, Page, Section, Text, render, write
from patchprint.report.tables import Table, best_of

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

EVIL = "</script><b>&\u2028'\""


def test_page_needs_no_other_file_and_escapes_text(tmp_path: Path) -> None:
    table = Table(["model", "FPR95"], [["<b>sift</b>", "0.200"], ["ours", "0.100"]], best=frozenset({(1, "0.100")}))
    chart = Chart("a curve", "step", "loss", [Line("ours", [0, 1], [1, 0])])
    picture = Picture.from_pixels(np.zeros((2, 3), np.uint8), "black")
    page = Page("A & B", "verdict", "lead", [Section("One", [Text("text"), table, chart, picture, Code("make demo")])])
    write(page, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "A &amp; B" in html and "&lt;b&gt;sift" in html and "<b>sift" not in html
    assert '<td class="best">0.100</td>' in html
    assert not re.findall(r'(?:src|href)="(?!data:|#)', html)
    assert "default-src 'none'" in html, "a browser would refuse whatever were asked from elsewhere"


def test_text_of_others_cannot_leave_its_place() -> None:
    line = Line(EVIL, [0, 1], [1, 0])
    parts = [
        Text(EVIL),
        Table([EVIL, "x"], [[EVIL, "1"]], EVIL),
        Chart(EVIL, EVIL, EVIL, [line], EVIL),
        Code(EVIL, EVIL),
    ]
    html = render(Page(EVIL, EVIL, EVIL, [Section(EVIL, parts)], EVIL))
    assert "<b>" not in html
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    assert json.loads(data)["series"][0]["label"] == EVIL


def test_only_what_is_needed_is_in_a_page() -> None:
    plain = render(Page("plain", sections=[Section("One", [Text("text")])]))
    charts = render(Page("chart", sections=[Section("One", [Chart("c", "x", "y", [Line("l", [0, 1], [1, 0])])])]))
    assert "uPlot" not in plain and len(plain) < 20_000
    assert "leeoniya/uPlot" in charts and "Leon Sorokin" in charts, "with the license that its author asks to be kept"


def test_sections_are_listed_where_there_are_several() -> None:
    several = render(Page("t", sections=[Section(name, [Text("x")]) for name in ("One", "Two", "Three")]))
    assert several.count('<a href="#part-') == 3 and 'id="part-3"' in several
    assert "<nav" not in render(Page("t", sections=[Section("One", [Text("x")])]))


def test_best_of_marks_the_smallest_or_largest() -> None:
    assert best_of(1, ["2.0", "1.0"], [2.0, 1.0], lower_is_better=True) == (1, "1.0")
    assert best_of(1, ["2.0", "1.0"], [2.0, 1.0], lower_is_better=False) == (1, "2.0")


def test_columns_of_words_stand_to_the_left() -> None:
    assert Table(["a", "b", "c"], [["x", "1 of 2", "word"], ["y", "–", "other"]]).text_columns() == {0, 2}


def test_an_empty_page_is_still_a_page() -> None:
    assert "<h1>empty</h1>" in render(Page("empty"))

"""The HTML page: self-contained and escaped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchprint.report.page import Figure, Page, Section, Table, best_of, render, write

pytest.importorskip("jinja2")


def test_page_needs_no_other_file_and_escapes_text(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib.figure")
    figure = matplotlib.Figure(figsize=(2, 1))
    figure.add_subplot().plot([0, 1], [1, 0])
    table = Table(["model", "FPR95"], [["<b>sift</b>", "0.200"], ["ours", "0.100"]], best=frozenset({(1, "0.100")}))
    page = Page(
        "A & B", "lead", [Section("One", ["text"], [table], [Figure.from_plot(figure, "curve")], code="make demo")]
    )
    write(page, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "A &amp; B" in html and "&lt;b&gt;sift" in html and "<b>sift" not in html
    assert '<td class="best">0.100</td>' in html
    assert not re.findall(r'(?:src|href)="(?!data:)', html)


def test_best_of_marks_the_smallest_or_largest() -> None:
    assert best_of(1, ["2.0", "1.0"], [2.0, 1.0], lower_is_better=True) == (1, "1.0")
    assert best_of(1, ["2.0", "1.0"], [2.0, 1.0], lower_is_better=False) == (1, "2.0")


def test_an_empty_page_is_still_a_page() -> None:
    assert "<h1>empty</h1>" in render(Page("empty"))

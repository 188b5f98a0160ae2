"""The HTML page: self-contained and escaped."""

import re
from pathlib import Path

import numpy as np
import pytest

from patchprint.common.table import Table
from patchprint.report.charts import Chart, Line
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.page import Code, Page, Section, Text, render, write

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

EVIL = "</script><b>&\u2028'\""


def test_page_needs_no_other_file_and_escapes_text(tmp_path: Path) -> None:
    table = Table(["model", "FPR95"], [["<b>sift</b>", "0.200"], ["ours", "0.100"]], best=frozenset({(1, "0.100")}))
    chart = Chart("a curve", "step", "loss", [Line("ours", [0, 1], [1, 0])])
    image = EmbeddedImage.from_pixels(np.zeros((2, 3), np.uint8), "black")
    page = Page("A & B", "verdict", "lead", [Section("One", [Text("text"), table, chart, image, Code("make demo")])])
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

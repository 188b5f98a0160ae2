"""Drawings inside of a page: names of their own, the page's colors, text as text."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from patchprint.report.drawing import COLORS, as_file, series_color, svg

pytest.importorskip("matplotlib")


def draw(figure: Any) -> None:
    axes = figure.subplots()
    axes.plot([1, 2], [1, 2], color=series_color(3))
    axes.set(xlabel="a <label> & more")


def test_two_drawings_on_a_page_share_no_names() -> None:
    names = [set(re.findall(r'id="([^"]+)"', svg(draw))) for _ in range(2)]
    assert names[0] and names[0].isdisjoint(names[1])


def test_colors_are_those_of_the_page_and_text_stays_text() -> None:
    drawn = svg(draw)
    assert "var(--series-3)" in drawn and "var(--line)" in drawn
    assert "a &lt;label&gt; &amp; more" in drawn
    assert re.match(r"<svg [^>]*viewBox", drawn) and 'width="' not in drawn.partition(">")[0], "as wide as its place"


def test_colors_come_again_after_the_last() -> None:
    assert series_color(COLORS) == series_color(0) != series_color(1)


def test_a_file_of_its_own_brings_its_colors_light_and_dark() -> None:
    text = as_file(svg(draw))
    root = ElementTree.fromstring(text)
    assert root.get("width", "").endswith("pt") and root.get("aria-hidden") is None
    style = root.find("{http://www.w3.org/2000/svg}style")
    assert style is not None and style.text is not None
    light, _, dark = style.text.partition("@media (prefers-color-scheme:dark)")
    for shade in (light, dark):
        assert set(re.findall(r"var\(--([\w-]+)\)", text)) == set(re.findall(r"--([\w-]+):#", shade))
    assert light.partition("--line:")[2][:7] != dark.partition("--line:")[2][:7]

"""Charts: drawings in the colors of the page, which need no script."""

import re
from xml.etree import ElementTree

import pytest

from patchprint.report.charts import LONG, Chart, Line

pytest.importorskip("matplotlib")

LINES = [Line("a", [1, 2, 3], [1, None, float("nan")]), Line("b", [1], [1])]
LABEL = "a <label> & more"
CHARTS = [
    Chart("t", LABEL, "y axis", LINES, y_range=(0, 3)),
    Chart("t", LABEL, "y axis", [Line("a", [0, 1e-3, 2], [1, 2, 2], dashed=True)], logarithmic=True),
    Chart("t", LABEL, "y axis", [Line("nothing", [], [])]),
    Chart("t", LABEL, "y axis", [Line("a", [0, 1], [1, 2], filled=True)]),
]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: type(chart).__name__)
def test_drawings_take_the_colors_of_the_page(chart: Chart) -> None:
    drawn = chart.svg()
    assert re.match(r"<svg [^>]*viewBox", drawn) and drawn.rstrip().endswith("</svg>")
    assert 'width="' not in drawn.partition(">")[0], "as wide as its place"
    assert "#0100" not in drawn and "#0101" not in drawn, "stand-ins are all replaced"
    assert "var(--muted)" in drawn and "<style" not in drawn and "<metadata" not in drawn
    assert "a &lt;label&gt; &amp; more" in drawn, "text stays text"


def test_two_drawings_on_a_page_share_no_identifiers() -> None:
    names = [set(re.findall(r'id="([^"]+)"', CHARTS[0].svg())) for _ in range(2)]
    assert names[0] and names[0].isdisjoint(names[1])


def test_long_curves_are_drawn_short() -> None:
    count = 200 * LONG
    drawn = Chart("t", "x", "y", [Line("a", range(count), [7919 * x % 1000 for x in range(count)])]).svg()
    assert len(drawn) < 5 * count, "characters, where a point that is written takes ten or more"


def test_a_file_brings_its_colors_light_and_dark() -> None:
    chart = CHARTS[-1]
    text = chart.file()
    assert text == chart.file(), "the same each time"
    root = ElementTree.fromstring(text)
    assert root.get("width", "").endswith("pt") and root.get("aria-hidden") is None
    style = root.find("{http://www.w3.org/2000/svg}style")
    assert style is not None and style.text is not None
    light, _, dark = style.text.partition("@media (prefers-color-scheme:dark)")
    for shade in (light, dark):
        assert set(re.findall(r"var\(--([\w-]+)\)", text)) == set(re.findall(r"--([\w-]+):#", shade))
    assert light.partition("--line:")[2][:7] != dark.partition("--line:")[2][:7]

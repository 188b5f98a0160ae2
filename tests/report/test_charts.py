"""Charts: the numbers that the script gets, and the drawing that needs none."""

from __future__ import annotations

import math

import pytest

from patchprint.report.charts import Bars, Chart, Dots, Frame, Line, Moving, Scatter
from patchprint.report.page import Page, Section, render

pytest.importorskip("matplotlib")


def test_lines_share_one_axis_with_nothing_where_they_have_nothing() -> None:
    chart = Chart("t", "x", "y", [Line("a", [1, 3], [10, math.nan]), Line("b", [2, 3], [20, 30], [19, 29], [21, 31])])
    data = chart.data()
    assert data["x"] == [1, 2, 3]
    a, b = data["series"]
    assert a["y"] == [10, None, None] and "low" not in a
    assert (b["low"], b["y"], b["high"]) == ([None, 19, 29], [None, 20, 30], [None, 21, 31])
    assert [series["color"] for series in data["series"]] == [0, 1]


def test_a_logarithmic_axis_leaves_zero_out() -> None:
    assert Chart("t", "x", "y", [Line("a", [0, 1e-3, 1], [0, 1, 2])], logarithmic=True).data()["x"] == [0.001, 1]


def test_numbers_are_short() -> None:
    assert Chart("t", "x", "y", [Line("a", [1.0], [0.123456789])]).data()["series"][0]["y"] == [0.123457]


def test_bars_have_a_value_for_each_name() -> None:
    bars = Bars("t", "AP", ["graf", "wall"], {"sift": [0.5, None], "ours": [0.6, 0.7]})
    assert [series["y"] for series in bars.data()["series"]] == [[0.5, None], [0.6, 0.7]]
    assert bars.legend() == [("sift", 0), ("ours", 1)]


def test_moments_are_spread_from_the_first_to_the_last() -> None:
    frames = [Frame(str(number), [[number, 1.0]]) for number in range(40)]
    chart = Moving("t", "angle", "share", [0.0, 1.0], [Line("a", (), (), filled=True)], frames)
    assert [frame.label for frame in chart.shown()] == ["0", "8", "16", "23", "31", "39"]
    assert len(chart.data()["frames"]) == 40
    assert len(Moving("t", "x", "y", [0.0], chart.lines, frames[:1]).shown()) == 1


@pytest.mark.parametrize(
    "chart",
    [
        Chart(
            "t", "x axis", "y axis", [Line("a", [1, 2], [1, 2], [0, 1], [2, 3]), Line("b", [1], [1])], y_range=(0, 3)
        ),
        Chart("t", "x axis", "y axis", [Line("a", [1, 2], [1, 2], dashed=True)], logarithmic=True),
        Chart("t", "x axis", "y axis", [Line("nothing", [], [])]),
        Bars("t", "y axis", ["a long name of a sequence", "wall"], {"sift": [1, None]}),
        Moving("t", "x axis", "y axis", [0, 1], [Line("a", (), (), filled=True)], [Frame("1", [[1, 2]])]),
    ],
    ids=lambda chart: f"{type(chart).__name__}",
)
def test_drawings_take_the_colors_of_the_page(chart: Chart | Bars | Moving) -> None:
    drawn = chart.svg()
    assert drawn.startswith("<svg ") and drawn.rstrip().endswith("</svg>")
    assert "#0100" not in drawn and "#0101" not in drawn, "stand-ins are all replaced"
    assert "var(--muted)" in drawn
    assert "<style" not in drawn and "<metadata" not in drawn


def test_dots_are_named_in_the_drawing_and_need_no_script() -> None:
    dots = [Dots("<one>", [10, 200], [0.5, 0.5], [1, 0], 0), Dots("two", [70], [0.4], [0], 1)]
    chart = Scatter("speed", "ms", "mAP", dots, ["usual", "int8"], ["ours", "theirs"], "a note")
    text = render(Page("t", sections=[Section("s", [chart])]))
    for word in ("&lt;one&gt;", ">two<", ">usual<", ">int8<", ">theirs<", "a note", "var(--series-1)"):
        assert word in text
    assert "<one>" not in text and "uPlot" not in text
    assert chart.file().startswith("<?xml")

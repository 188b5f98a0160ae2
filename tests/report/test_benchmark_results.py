"""Results of benchmarks as tables and bars, and the sentence that stands above them."""

from __future__ import annotations

from patchprint.common.table import Table
from patchprint.report.benchmark_results import result_sections, verdict
from patchprint.report.charts import Bars
from patchprint.report.page import Page, render
from support.made_runs import oxford_result, verification_result


def test_best_numbers_are_marked_and_bars_stand_beside() -> None:
    (section,) = result_sections([oxford_result("<b>", 0.5), oxford_result("other", 0.75)])
    table, bars = section.parts
    assert isinstance(table, Table) and isinstance(bars, Bars)
    assert (1, "0.7500") in table.best
    assert bars.names == ["graf", "wall"] and bars.values["other"] == [0.375, 0.75]
    text = render(Page("t", sections=[section]))
    assert "<b>" not in text and "&lt;b&gt;" in text


def test_the_verdict_names_the_best_and_sift() -> None:
    results = [oxford_result(name, value) for name, value in (("a", 0.5), ("b", 0.7), ("sift", 0.3), ("c", 0.6))]
    assert verdict(results) == "oxford: b comes to mAP 0.7000, sift to 0.3000."
    lower = [verification_result("a", 0.5), verification_result("b", 0.75)]
    assert verdict(lower) == "ubc on made: b comes to FPR95 25\u00a0%, a to 50\u00a0%."
    assert verdict(lower[:1]).endswith("a comes to FPR95 50\u00a0%.")


def test_published_rows_stand_back() -> None:
    result = verification_result("a", 0.5)
    result["data"]["path"], result["scores"]["pair_list"] = "sets/liberty", "official"
    (section,) = result_sections([result])
    table = section.parts[0]
    assert isinstance(table, Table)
    assert "published: SIFT" in table.quiet and not table.best
    assert 'class="quiet"' in render(Page("t", sections=[section]))


def test_two_settings_of_one_benchmark_have_names_of_their_own_and_the_larger_comes_first() -> None:
    other = oxford_result("a", 0.5)
    other["settings"] = {"px": 2.0}
    sections = result_sections([other, oxford_result("a", 0.5), oxford_result("b", 0.6)])
    assert [section.heading for section in sections] == ["oxford (px 4.0)", "oxford (px 2.0)"]

"""The demo from end to end, with a few steps of training: it must leave a page, numbers and weights."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cv2")
pytest.importorskip("skimage.data")

from patchprint.networks import weights
from patchprint.pipelines import demo
from support.browser import count_colors, serious_violations

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short demo, with what it printed in ``printed.txt``."""
    folder, printed = tmp_path_factory.mktemp("demo"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(demo, "OTHERS", {"rootsift": "rootsift", "pixels": "pixels"})
        patch.setattr(demo.bundled_images, "TRAINING", ("coins", "moon", "page"))
        patch.setattr(demo.bundled_images, "HELD_OUT", ("camera",))
        assert demo.main(folder, steps=3) == 0
    (folder / "printed.txt").write_text(printed.getvalue())
    return folder


@pytest.mark.slow
def test_demo_leaves_report_result_and_weights(made: Path) -> None:
    result = json.loads((made / "result.json").read_text())
    scores = result["scores"]
    assert scores["rootsift"]["fpr95"] < scores["pixels"]["fpr95"] < 0.5
    assert scores["rootsift"]["stereo"]["correct"] > 500
    assert result["model"]["sha256"] == weights.load_network(made / "training" / "last.safetensors").info.sha256
    page = (made / "report.html").read_text()
    assert "data:image/jpeg;base64" in page and "rootsift" in page
    assert demo.LEARNED in (made / "printed.txt").read_text()
    hard = scores["hard_pair"]
    assert 0 < hard["rootsift"]["right"] < hard["rootsift"]["matches"], "hard, but not hopeless"
    assert f"{demo.LEARNED}: {hard[demo.LEARNED]['right']} of {hard[demo.LEARNED]['matches']} matches right" in page
    assert not (made / "hard-pixels.png").exists()


@pytest.mark.slow
def test_its_page_in_a_browser(made: Path, open_page: Callable[..., Page]) -> None:
    page = open_page(made / "report.html")
    charts = page.locator("figure.chart")
    assert charts.count() >= 8
    for chart in charts.all():
        chart.scroll_into_view_if_needed()
        assert count_colors(chart.locator("svg").locator("visible=true").first) > 5, chart.inner_text()
    assert page.locator("img").count() == 2
    assert page.evaluate("() => [...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    table = page.locator("table.sortable").first
    first = "() => document.querySelector('table.sortable tbody tr').innerText"
    order = {page.evaluate(first)}
    for _ in range(2):
        table.get_by_role("button").nth(1).click()
        order.add(page.evaluate(first))
    assert len(order) > 1, "a heading sorts"
    assert serious_violations(page) == []

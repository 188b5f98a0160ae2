"""A report in a real browser: everything is there, can be asked, sorted and turned, and is readable without scripts.

That nothing is asked from outside and that the console stays empty is checked by ``open_page`` in every test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import pytest

from patchprint import cli
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.page import Page as ReportPage, Section, write
from patchprint.report.scenes import Scene
from support.browser import PHONE, count_colors, overflow, pixels, serious_violations
from support.made_runs import oxford_result, verification_result, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]
EVIL = "</script><script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results, a run of SDGMNet and a image of matches on one page."""
    folder = tmp_path_factory.mktemp("report")
    results = [oxford_result(EVIL, 0.5), oxford_result("sift", 0.25), oxford_result("third", 0.75)]
    results += [verification_result("ours", 0.6), verification_result("sift", 0.3)]
    (folder / "results.json").write_text(json.dumps(results))
    drawing = np.full((60, 200, 3), 90, np.uint8)
    cv2.line(drawing, (5, 5), (190, 50), (80, 190, 60), 2)
    cv2.imwrite(str(folder / "matches.png"), drawing)
    run = write_run(folder / "run", recipe="sdgmnet", steps=2000)
    out = folder / "report.html"
    sources = [folder / "results.json", run, folder / "matches.png"]
    assert cli.main(["report", *map(str, sources), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a scene of red points, seen by two cameras."""
    points = np.random.default_rng(0).normal(size=(3000, 3))
    colors = np.full((3000, 3), (230, 30, 30), np.uint8)
    centers = np.array([[-1.0, 0.0, -6.0], [1.0, 0.0, -6.0]])
    corners = centers[:, None] + np.array([(-1, -1, 2), (1, -1, 2), (1, 1, 2), (-1, 1, 2)]) / 2
    image = EmbeddedImage.from_pixels(np.full((50, 100, 3), 200, np.uint8), "the points from the front")
    part = Scene(points, colors, [EVIL, "b.jpg"], centers, corners, image)
    out = tmp_path_factory.mktemp("scene") / "report.html"
    write(ReportPage("A scene", "verdict", "lead", [Section("The scene", [part])]), out)
    return out


def column(page: Page, table: int, number: int) -> list[str]:
    rows = page.locator("table.sortable").nth(table).locator("tbody tr").all()
    return [row.locator("th, td").nth(number).inner_text() for row in rows]


@pytest.mark.slow
def test_every_chart_and_picture_is_there(report: Path, open_page: Open) -> None:
    page = open_page(report)
    charts = page.locator("figure.chart")
    assert charts.count() >= 15
    for chart in charts.all():
        chart.scroll_into_view_if_needed()
        assert count_colors(chart.locator("svg")) > 10, chart.locator("h3").inner_text()
    images = page.locator("img")
    assert images.count() == 1 + 2 * 6
    assert page.evaluate("() => [...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert page.title() == "Training of run", "text of others stays text"
    assert EVIL in page.locator("table.sortable").first.inner_text()


def test_the_keyboard_sorts_and_switches_the_light(report: Path, open_page: Open) -> None:
    page = open_page(report)
    page.locator("table.sortable").first.evaluate("(table) => table.parentElement.focus()")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert column(page, 0, 1) == ["0.2500", "0.5000", "0.7500"]
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name="Switch between light and dark").press("Enter")
    assert page.evaluate(paper) != light


def test_clicks_on_a_heading_sort_both_ways(report: Path, open_page: Open) -> None:
    page = open_page(report)
    heading = page.locator("table.sortable").first.get_by_role("columnheader", name="graf")
    heading.get_by_role("button").click()
    assert column(page, 0, 2) == ["0.1250", "0.2500", "0.3750"]
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.get_by_role("button").click()
    assert column(page, 0, 2) == ["0.3750", "0.2500", "0.1250"]
    page.locator("table.sortable").first.get_by_role("button", name="model").click()
    assert column(page, 0, 0) == [EVIL, "sift", "third"]


def test_without_scripts_everything_can_be_read(report: Path, scene: Path, open_page: Open) -> None:
    page = open_page(report, javascript=False)
    drawings = page.locator("figure.chart svg")
    assert drawings.count() == page.locator("figure.chart").count()
    assert all(drawing.is_visible() for drawing in drawings.all())
    assert count_colors(drawings.first) > 10
    assert page.locator("table.sortable").first.is_visible()
    assert page.get_by_role("button").count() == 0, "no button that does nothing"
    assert open_page(scene, javascript=False).get_by_role("img").is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, PHONE])
def test_it_fits_and_is_accessible(report: Path, scene: Path, open_page: Open, width: int, dark: bool) -> None:
    for file in (report, scene):
        page = open_page(file, width=width, dark=dark)
        assert overflow(page) == 0
        assert serious_violations(page) == []


def test_on_paper_it_is_light_and_drawn(report: Path, open_page: Open) -> None:
    page = open_page(report, dark=True)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("figure.chart svg").first.is_visible()
    ink = page.evaluate("() => getComputedStyle(document.body).color").removeprefix("rgb(").removesuffix(")")
    assert max(map(int, ink.split(","))) < 80


def test_the_scene_shows_points_and_turns(scene: Path, open_page: Open) -> None:
    page = open_page(scene)
    canvas = page.locator("figure.scene canvas")
    before = pixels(canvas).astype(int)
    is_red = (before[..., 2] - before[..., :2].max(-1) > 100).mean()
    assert is_red > 0.02, "points, and not the background alone"
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(100)
    turned = pixels(canvas).astype(int)
    assert (turned != before).any()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 220, steps=3)
    page.mouse.up()
    page.wait_for_timeout(100)
    dragged = pixels(canvas).astype(int)
    assert (dragged != turned).any()
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(100)
    nearer = pixels(canvas).astype(int)
    assert (nearer[..., 2] - nearer[..., :2].max(-1) > 100).mean() > is_red
    page.get_by_role("button", name="Start view").click()
    page.wait_for_timeout(100)
    assert (np.abs(pixels(canvas).astype(int) - before) > 8).mean() < 0.01


def test_the_scene_turns_under_a_finger(scene: Path, open_page: Open) -> None:
    page = open_page(scene, width=PHONE)
    canvas = page.locator("figure.scene canvas")
    before = pixels(canvas).astype(int)
    box = canvas.bounding_box()
    assert box is not None
    touch = page.context.new_cdp_session(page)
    for kind, x in (("touchStart", 100), ("touchMove", 130), ("touchMove", 170)):
        touch.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": box["x"] + x, "y": box["y"] + 100}]}
        )
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(100)
    assert (pixels(canvas).astype(int) != before).any()


def test_where_there_is_no_webgl_the_picture_stays(scene: Path, open_page: Open) -> None:
    page = open_page(scene)
    page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    page.reload()
    assert page.get_by_role("img").is_visible() and page.locator("canvas").count() == 0


@pytest.mark.slow
def test_the_page_of_a_run_of_200_000_steps_is_small(tmp_path: Path, open_page: Open) -> None:
    run = write_run(tmp_path / "long", recipe="sdgmnet", steps=200_000, every=5)
    out = tmp_path / "long.html"
    assert cli.main(["report", str(run), "--out", str(out)]) == 0
    assert out.stat().st_size < 5_000_000
    page = open_page(out)
    assert page.locator("figure.chart svg").count() >= 10
    assert "300 stretches" in page.inner_text("main")

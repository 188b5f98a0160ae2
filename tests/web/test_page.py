"""The page in a real browser, served by a real process, on real photos."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patchprint import cli
from patchprint.interop.image_files import image_size
from support.browser import DESK, PHONE, overflow, serious_violations
from support.serving import Served

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow
PICTURE = "img.pp-picture"


def give(page: Page, number: int, path: Path) -> None:
    """Put a file into one of the two fields, as dropping or choosing it does; what lies there is taken away first."""
    field = page.locator(".pp-photo").nth(number)
    if field.locator("img").count():
        field.get_by_label("Remove Image").click()
    field.locator("input[type=file]").set_input_files(path)
    field.locator("img").wait_for(state="attached")


def shown(page: Page) -> dict[str, list[str]]:
    """The table of numbers: the cells of each row."""
    page.locator(PICTURE).wait_for(timeout=60_000)
    rows = page.locator(".pp-numbers tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows}


def after(page: Page, change: Callable[[], object], what: Locator) -> str:
    """The text of something, once a change has changed it."""
    before = what.inner_text()
    change()
    page.wait_for_function("([element, before]) => element.innerText !== before", arg=[what.element_handle(), before])
    return what.inner_text()


def test_two_photos_their_matches_and_patches(
    server: Served, open_page: Callable[..., Page], real_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    page = open_page(server.address, DESK, height=800)
    page.get_by_label("number input for Keypoints per photo").fill("256")
    for number, path in enumerate(real_pair):
        give(page, number, path)
    numbers = shown(page)
    assert numbers["Keypoints"][0] == "256 and 256" and "The same place" in page.locator(".pp-verdict").inner_text()

    # The same question on the page, by the API and on the command line.
    _, answer = server.match(*real_pair, max_keypoints=256)
    _, sift = server.match(*real_pair, max_keypoints=256, model="sift")
    assert numbers["Matches"] == [
        str(answer["matches"]),
        str(sift["matches"]),
        f"{answer['matches'] - sift['matches']:+d}",
    ]
    assert numbers["Inliers"][:2] == [str(answer["inliers"]), str(sift["inliers"])]
    with page.expect_download() as download:
        page.get_by_text("Download matches").click()
    command = page.locator(".pp-away code").inner_text().split()
    assert command[:4] == ["patchprint", "match", *(path.name for path in real_pair)]
    assert cli.main(["match", *map(str, real_pair), *command[4:], "--out", str(tmp_path / "m.csv")]) == 0
    assert download.value.path().read_bytes() == (tmp_path / "m.csv").read_bytes()

    matches = page.locator(".pp-numbers tbody tr").nth(1).locator("td").first
    strict = after(page, lambda: page.get_by_label("number input for Ratio").fill("0.6"), matches)
    assert 0 < int(strict) < answer["matches"]

    # A click at the end of a line shows the patch, its match and the others, to both descriptors.
    _, answer = server.match(*real_pair, max_keypoints=256, ratio=0.6)
    x, y = answer["points_a"][answer["is_inlier"].index(True)]
    box, (width, height) = page.locator(PICTURE).bounding_box(), image_size(real_pair[0])  # both have one size
    assert box is not None and box["width"] / box["height"] == pytest.approx(2 * width / height, abs=0.02)
    there = {"x": (x + 0.5) / (2 * width) * box["width"], "y": (y + 0.5) / height * box["height"]}
    page.locator(PICTURE).click(position=there)  # type: ignore[arg-type]
    page.locator(".pp-look").wait_for()
    assert page.locator(".pp-row h2").all_inner_texts() == ["sdgmnet", "sift"]
    for row in page.locator(".pp-row").all():
        assert row.locator("figure").count() == 11
        distances = [float(each.split()[-1]) for each in row.locator("figcaption").all_inner_texts()]
        assert len(distances) == 10 and distances == sorted(distances)
        assert all(image.evaluate("each => each.naturalWidth") == 64 for image in row.locator("img").all())
    assert page.locator(".pp-row").first.locator("figure.pp-match.pp-right").count() == 1
    assert page.evaluate("() => document.documentElement.scrollHeight") <= 800, "not one screen"
    assert serious_violations(page) == []


def test_files_that_are_no_photos_get_a_sentence(
    server: Served, open_page: Callable[..., Page], photos: tuple[Path, Path], bad_files: dict[str, Path]
) -> None:
    page = open_page(server.address)
    give(page, 0, photos[0])
    for words, path in bad_files.items():
        give(page, 1, path)
        page.get_by_role("alert").filter(has_text=words).wait_for()
        assert page.locator(PICTURE).count() == 0
        # A browser's sign for a broken picture is hidden; one that is too large is a picture.
        page.locator(".pp-photo").nth(1).locator("img").wait_for(state="visible" if "huge" in words else "hidden")
    give(page, 1, photos[1])
    assert int(shown(page)["Matches"][0]) > 10
    page.locator(".pp-photo").nth(1).locator("img").wait_for(state="visible")
    assert page.get_by_role("alert").count() == 0


def test_with_the_keyboard_alone_on_a_phone_in_the_dark(server: Served, open_page: Callable[..., Page]) -> None:
    page = open_page(server.address, PHONE, dark=True)
    example = page.get_by_role("button", name="Two views")
    example.wait_for()
    page.locator("#pp-count input[type=range]").press("Home")  # few, for speed
    for _ in range(40):
        page.keyboard.press("Shift+Tab")
        if example.evaluate("each => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    assert int(shown(page)["Matches"][0]) > 10
    assert overflow(page) == 0
    matches = page.locator(".pp-numbers tbody tr").nth(1).locator("td").first
    slider = page.locator("#pp-ratio input[type=range]")
    slider.focus()
    fewer = after(page, lambda: page.keyboard.press("Home"), matches)
    assert slider.input_value() == "0.5" and int(fewer) >= 0
    page.locator("#pp-number input").press("7")
    page.locator(".pp-look").filter(has_text="Keypoint 7 of").wait_for()
    assert overflow(page) == 0 and serious_violations(page) == []
    page.get_by_role("button", name="Different things").press("Enter")
    page.locator(".pp-verdict").filter(has_text="Not the same place").wait_for()


def test_the_rule_and_the_model_can_be_chosen(
    server: Served, open_page: Callable[..., Page], photos: tuple[Path, Path]
) -> None:
    page = open_page(server.address)
    for number, path in enumerate(photos):
        give(page, number, path)
    shown(page)
    head = page.locator(".pp-numbers thead")
    choose(page, "Descriptor", "rootsift")
    head.filter(has_text="rootsift").wait_for()
    assert page.get_by_label("number input for Ratio").input_value() == "0.8"  # its own
    choose(page, "Rule", "mutual")
    page.locator(".pp-away code").filter(has_text="--matcher mutual").wait_for()
    assert page.get_by_label("number input for Ratio").is_disabled()
    _, answer = server.match(*photos, model="rootsift", mode="mutual", max_keypoints=2048)
    assert shown(page)["Matches"][0] == str(answer["matches"])
    fields = {each["props"].get("label"): each["props"] for each in server.ask("GET", "/config")[1]["components"]}
    choices = server.ask("GET", "/api/choices")[1]
    for label, names in (("Descriptor", "models"), ("Detector", "detectors"), ("Rule", "modes")):
        assert [shown for shown, _ in fields[label]["choices"]] == choices[names]


def choose(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=value, exact=True).click()

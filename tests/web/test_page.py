"""The page in a real browser, served by a real process, on real images."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patchprint import cli
from patchprint.interop.images import image_size
from support.browser import DESK, PHONE, overflow, serious_violations
from support.serving import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


def give(page: Page, *paths: Path, first: str = "a") -> None:
    """Put files into the two fields."""
    for side, path in zip("ab"["ab".index(first) :], paths, strict=False):
        page.locator(f'[data-side="{side}"] input').set_input_files(path)


def type_in(page: Page, label: str, value: str) -> None:
    page.get_by_label(label).fill(value)
    page.get_by_label(label).press("Enter")


def table(page: Page) -> dict[str, list[str]]:
    """The numbers, once everything that was asked is answered."""
    page.locator("#result").wait_for(timeout=60_000)
    page.locator("#status:empty").wait_for(state="attached", timeout=60_000)
    rows = page.locator("#numbers tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows}


def test_two_images_their_matches_and_patches(
    server: Served, open_page: Callable[..., Page], real_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    page = open_page(server.address, DESK, height=800)
    type_in(page, "Keypoints per image as a number", "256")
    give(page, *real_pair)
    numbers = table(page)
    assert numbers["Keypoints"][0] == "256 and 256" and "Same place" in page.locator("#verdict").inner_text()

    # The same question on the page, by the API and on the command line.
    _, answer = server.match(*real_pair, max_keypoints=256)
    _, sift = server.match(*real_pair, max_keypoints=256, model="sift", ratio=numbers["Ratio"][0])
    for label, name in (("Matches", "matches"), ("Inliers", "inliers")):
        assert numbers[label] == [str(answer[name]), str(sift[name]), f"{answer[name] - sift[name]:+d}"]
    counts = f"{answer['matches']} matches.*, {answer['inliers']} agree with one"
    assert re.search(counts, page.locator("#counts").inner_text())
    with page.expect_download() as download:
        page.get_by_text("Download matches").click()
    command = page.locator("#command").inner_text().split()
    assert command[:4] == ["patchprint", "match", *(path.name for path in real_pair)]
    assert cli.main(["match", *map(str, real_pair), *command[4:], "--out", str(tmp_path / "m.csv")]) == 0
    assert download.value.path().read_bytes() == (tmp_path / "m.csv").read_bytes()

    # Both models at another ratio (first hour, point 9).
    type_in(page, "Ratio as a number", "0.6")
    page.locator("#command").filter(has_text="--ratio 0.6").wait_for()
    strict = table(page)
    assert strict["Ratio"][:2] == ["0.60", "0.60"] and 0 < int(strict["Matches"][0]) < answer["matches"]
    _, sift = server.match(*real_pair, max_keypoints=256, model="sift", ratio=0.6)
    assert strict["Matches"][1] == str(sift["matches"])

    # The images lie beside each other with a gap, and a click at the end of a line shows its patches.
    left, right = (page.locator(f"#image-{side}").bounding_box() for side in "ab")
    width, height = image_size(real_pair[0])
    assert left and right and right["x"] - left["x"] - left["width"] > 8
    assert left["width"] / left["height"] == pytest.approx(width / height, abs=0.02)
    _, answer = server.match(*real_pair, max_keypoints=256, ratio=0.6)
    assert page.locator("#lines g").count() == min(100, answer["matches"])
    assert page.locator("#lines g.agrees").count() > 10
    x, y = answer["points_a"][answer["is_inlier"].index(True)]
    scale = left["width"] / width
    spot = left["x"] + (x + 0.5) * scale, left["y"] + (y + 0.5) * scale
    page.mouse.move(*spot)
    assert page.locator("#lines.following g.followed").count() == 1
    page.mouse.click(*spot)
    page.locator("#patches").get_by_text(re.compile("Keypoint .* of ")).wait_for()
    assert page.locator(".view h2").all_inner_texts() == ["patchprint", "sift"]
    ring = page.locator("#lines .chosen").bounding_box()
    assert ring and ring["x"] < spot[0] < ring["x"] + ring["width"] and page.locator("#lines .near").count() == 10
    for row in page.locator(".view").all():
        assert row.locator("figure").count() == 11
        distances = [float(each.split()[-1]) for each in row.locator("figcaption").all_inner_texts()]
        assert len(distances) == 10 and distances == sorted(distances)
        assert all(image.evaluate("each => each.naturalWidth") == 64 for image in row.locator("img").all())
    assert page.locator(".view").first.locator("figure.match.agrees").count() == 1
    assert page.evaluate("() => document.documentElement.scrollHeight") <= 800, "not one screen"
    assert serious_violations(page) == []


def test_files_that_are_no_images_get_a_sentence(
    server: Served, open_page: Callable[..., Page], images: tuple[Path, Path], bad_files: dict[str, Path]
) -> None:
    page = open_page(server.address)
    give(page, images[0])
    preview = page.locator('[data-side="b"] img')
    for words, path in bad_files.items():
        give(page, path, first="b")
        page.get_by_role("alert").filter(has_text=words).wait_for()
        assert page.locator("#result").is_hidden()
        preview.wait_for(state="visible" if "huge" in words else "hidden")  # one that is too large is an image
    give(page, images[1], first="b")
    assert int(table(page)["Matches"][0]) > 10 and page.get_by_role("alert").count() == 0
    page.get_by_label("Remove second image").click()
    page.get_by_text("Choose two images").wait_for()


def test_with_the_keyboard_alone_on_a_phone_in_the_dark(server: Served, open_page: Callable[..., Page]) -> None:
    page = open_page(server.address, PHONE, dark=True)
    example = page.get_by_role("button", name="Two views")
    example.wait_for()
    page.get_by_label("Keypoints per image", exact=True).press("Home")  # few, for speed
    for _ in range(40):
        page.keyboard.press("Shift+Tab")
        if example.evaluate("each => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    many = int(table(page)["Matches"][0])
    assert many > 10 and overflow(page) == 0
    above, below = (page.locator(f"#image-{side}").bounding_box() for side in "ab")
    assert above and below and below["y"] > above["y"] + above["height"], "too small beside each other"
    slider = page.get_by_label("Ratio", exact=True)
    slider.press("Home")
    page.locator("#command").filter(has_text="--ratio 0.5").wait_for()
    assert slider.input_value() == "0.5" and int(table(page)["Matches"][0]) <= many
    type_in(page, "Look at keypoint no.", "7")
    page.locator("#patches").filter(has_text="Keypoint 7 of").wait_for()
    assert overflow(page) == 0 and serious_violations(page) == []
    page.get_by_role("button", name="Different things").press("Enter")
    page.locator("#verdict").filter(has_text="Cannot tell whether").wait_for()


def test_the_rule_and_the_model_can_be_chosen(
    server: Served, open_page: Callable[..., Page], images: tuple[Path, Path]
) -> None:
    page = open_page(server.address)
    give(page, *images)
    table(page)
    page.get_by_label("Descriptor").select_option("rootsift")
    page.locator("#numbers thead").filter(has_text="rootsift").wait_for()
    assert page.get_by_label("Ratio as a number").input_value() == "0.80"  # its own
    page.get_by_label("Matcher").select_option("mutual")
    page.locator("#command").filter(has_text="--matcher mutual").wait_for()
    assert page.get_by_label("Ratio as a number").is_disabled()
    _, answer = server.match(*images, model="rootsift", matcher="mutual", max_keypoints=2048)
    assert table(page)["Matches"][0] == str(answer["matches"])
    choices = server.ask("GET", "/api/choices")[1]
    fields = {"Descriptor": "models", "Detector": "detectors", "Matcher": "matchers", "Compare with": "baselines"}
    for label, name in fields.items():
        assert page.get_by_label(label).locator("option").all_inner_texts() == list(choices[name])


def test_names_of_files_are_text(
    server: Served, open_page: Callable[..., Page], images: tuple[Path, Path], tmp_path: Path
) -> None:
    name = "<img src=x onerror=alert(1)>{{value}}${value}`&.png"
    (tmp_path / name).write_bytes(images[0].read_bytes())
    page = open_page(server.address)
    give(page, tmp_path / name, images[1])
    table(page)
    type_in(page, "Look at keypoint no.", "3")
    page.locator("#patches").filter(has_text=f"Keypoint 3 of {name}").wait_for()
    assert name in page.locator("#command").inner_text() and page.locator("img[src=x]").count() == 0


def test_files_can_be_dropped_and_pasted(
    server: Served, open_page: Callable[..., Page], images: tuple[Path, Path]
) -> None:
    page = open_page(server.address)
    page.locator("#samples button").first.wait_for()
    send = """([kind, contents, ...names]) => {
        const data = new DataTransfer(), bytes = Uint8Array.from(atob(contents), (each) => each.charCodeAt(0));
        for (const name of names) data.items.add(new File([bytes], name));
        const [make, more] = kind === "paste" ? [ClipboardEvent, {clipboardData: data}] : [DragEvent, {dataTransfer: data}];
        document.body.dispatchEvent(new make(kind, {...more, bubbles: true, cancelable: true}));
    }"""
    contents = base64.b64encode(images[0].read_bytes()).decode()
    page.evaluate(send, ["drop", contents, "one.png", "other.png"])
    table(page)
    assert page.locator("#command").inner_text().startswith("patchprint match one.png other.png")
    page.evaluate(send, ["paste", contents, "third.png"])
    page.locator("#command").filter(has_text="patchprint match one.png third.png").wait_for()

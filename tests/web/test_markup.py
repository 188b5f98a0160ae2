"""Pieces of the page: every text is escaped, numbers are those that were given."""

from __future__ import annotations

import base64
import re

import pytest

from patchprint.matching.image_pair import MatchSettings
from patchprint.web import markup

NASTY = "<img src=x onerror=alert(1)>{{value}}${value}`\"'&.jpg"
NUMBERS = {
    "model": "m", "keypoints_a": 5, "keypoints_b": 6, "matches": 40, "inliers": 30, "geometry": "homography",
    "verdict": "same", "probability": 1.0, "ratio": 0.8, "sentence": "the same place, probability above 0.999",
}  # fmt: skip


def looked(**more: object) -> dict:
    near = {"patch": "AAAA", "distance": 0.25, "keypoint": 1, "x": 1.0, "y": 2.0, "is_match": True, "agrees": True}
    view = {"model": "m", "kind": "float", "patch": "AAAA", "near": [near, {**near, "is_match": False, "agrees": None}]}
    return {"keypoint": 7, "photo": "a.jpg", "views": [view, {**view, "kind": "binary"}], **more}


@pytest.mark.parametrize(
    "made",
    [
        markup.problem(NASTY),
        markup.taking_away([NASTY, "b.jpg"], MatchSettings(), "a,b\n"),
        markup.patches(looked(photo=NASTY)),
        markup.comparison([{**NUMBERS, "model": NASTY}, NUMBERS]),
    ],
)
def test_names_of_files_are_text(made: str) -> None:
    assert "onerror" in made and "<img src=x" not in made
    text = re.sub(r"<[^>]*>", "", made)
    assert not re.search(r"[{}$`]", text)


def test_differences_have_a_sign() -> None:
    ours, theirs = NUMBERS, {**NUMBERS, "model": "sift", "matches": 50, "inliers": 30, "verdict": "unsure"}
    cells = re.findall(r"<td>(.*?)</td>", markup.comparison([ours, theirs]).partition("<tbody>")[2])
    assert cells == [
        "5 and 6",
        "the same",
        "",
        "40",
        "50",
        "-10",
        "30",
        "30",
        "0",
        "same place",
        "perhaps",
        "",
        "0.80",
        "0.80",
        "",
    ]
    assert "The same place, probability above 0.999" in markup.comparison([ours, theirs])


def test_what_was_not_asked_for_is_said() -> None:
    bare = {**NUMBERS, "inliers": None, "verdict": None, "ratio": None, "sentence": ""}
    made = markup.comparison([bare, bare])
    assert made.count("not asked for") == 4 and "Ratio" not in made


def test_few_lines_of_many_are_said() -> None:
    drawn = {"jpeg": "AAAA", "ratio": 2.5, "lines": 40}
    assert "drawn" not in markup.picture(drawn, NUMBERS)
    assert "40 of 41 matches drawn" in markup.picture(drawn, {**NUMBERS, "matches": 41})


def test_the_table_is_in_the_link() -> None:
    made = markup.taking_away(["a.jpg", "b.jpg"], MatchSettings(), "x,y\n1,ä\n")
    data = re.search(r'href="data:text/csv;base64,([^"]+)"', made)
    assert data and base64.b64decode(data[1]).decode() == "x,y\n1,ä\n"


def test_the_command_is_what_must_be_typed() -> None:
    assert markup.command(["a.jpg", "b.jpg"], MatchSettings()) == "patchprint match a.jpg b.jpg"
    asked = MatchSettings("sift", max_keypoints=64, mode="ratio", ratio=0.75)
    assert markup.command(["my photo.jpg", "b.jpg"], asked) == (
        "patchprint match 'my photo.jpg' b.jpg --model sift --max-keypoints 64 --matcher ratio --ratio 0.75"
    )


def test_patches_have_distances_and_words() -> None:
    made = markup.patches(looked())
    assert made.count("<figure") == 6
    assert "✓ 0.250<" in made and "0 bits" in made
    assert 'alt="patch at distance 0.250, at the right place, the match"' in made

"""What page and API answer: what the command line answers, from a memory that is bounded and used."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint import cli
from patchprint.common.errors import UserError
from patchprint.matching import image_pair
from patchprint.matching.image_pair import MatchSettings
from patchprint.web.looking import NEIGHBORS, Desk, Photo, Spot
from patchprint.web.recent import Recent

MODELS = {"hardnet.small": "hardnet.small", "sift": "sift", "rootsift": "rootsift"}
SETTINGS = MatchSettings("hardnet.small", max_keypoints=200)


@pytest.fixture(scope="module")
def desk() -> Desk:
    return Desk(MODELS, device="cpu")


@pytest.fixture(scope="module")
def pair(photos: tuple[Path, Path]) -> Sequence[Photo]:
    return [Photo(path.name, path.read_bytes()) for path in photos]


def image_in(text: str) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(base64.b64decode(text), np.uint8), cv2.IMREAD_COLOR)


def command(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    capsys.readouterr()
    assert cli.main([*map(str, words), "--json", "--device", "cpu"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ({"model": "hardnet.small"}, ["--model", "hardnet.small"]),
        ({"model": "sift", "mode": "mutual"}, ["--model", "sift", "--matcher", "mutual"]),
        ({"model": "rootsift", "ratio": 0.9, "upright": True}, ["--model", "rootsift", "--ratio", 0.9, "--upright"]),
        ({"model": "sift", "max_size": 150, "spread": False}, ["--model", "sift", "--max-size", 150, "--no-spread"]),
        ({"model": "sift", "geometry": "none"}, ["--model", "sift", "--geometry", "none"]),
    ],
)
def test_the_answer_and_the_table_of_the_command_line(
    desk: Desk,
    pair: Sequence[Photo],
    photos: tuple[Path, Path],
    settings: dict,
    flags: list,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = command(capsys, "match", *photos, "--max-keypoints", 200, "--out", tmp_path / "m.csv", *flags)
    asked = MatchSettings(**settings, max_keypoints=200)
    found = desk.match(pair, asked)
    assert found.pop("seconds") >= 0 and said.pop("seconds") > 0
    assert json.loads(json.dumps(found)) == said and said["matches"] > 20
    shown = desk.show(pair, asked)
    assert shown["csv"].encode() == (tmp_path / "m.csv").read_bytes()
    numbers = shown["numbers"][0]
    assert {name: numbers[name] for name in ("matches", "inliers", "verdict", "probability")} == {
        name: said[name] for name in ("matches", "inliers", "verdict", "probability")
    }


def test_the_baseline_is_what_it_is_by_itself(desk: Desk, pair: Sequence[Photo]) -> None:
    ours, theirs = desk.show(pair, MatchSettings("hardnet.small", max_keypoints=200, ratio=0.7), "rootsift")["numbers"]
    alone = desk.match(pair, MatchSettings("rootsift", max_keypoints=200))
    assert (theirs["model"], theirs["ratio"], ours["ratio"]) == ("rootsift", 0.8, 0.7)
    assert (theirs["matches"], theirs["inliers"]) == (alone["matches"], alone["inliers"])


def test_another_ratio_describes_nothing_again(pair: Sequence[Photo], monkeypatch: pytest.MonkeyPatch) -> None:
    described = []
    extract = image_pair.extract
    monkeypatch.setattr(image_pair, "extract", lambda *a, **k: (described.append(a[1].info.name), extract(*a, **k))[1])
    desk = Desk(MODELS, device="cpu")
    loose = desk.show(pair, MatchSettings("rootsift", max_keypoints=200, ratio=0.95))["numbers"][0]["matches"]
    assert described == ["rootsift", "rootsift", "sift", "sift"]
    strict = desk.show(pair, MatchSettings("rootsift", max_keypoints=200, ratio=0.5, mode="ratio"))
    desk.look(pair, MatchSettings("rootsift", max_keypoints=200, ratio=0.5, geometry="homography"), Spot(0.2, 0.3))
    assert len(described) == 4 and strict["numbers"][0]["matches"] < loose
    desk.show(pair, MatchSettings("rootsift", max_keypoints=150))
    assert len(described) == 8


def test_the_memory_is_bounded() -> None:
    recent: Recent[int] = Recent(2)
    made = []
    for key in ("a", "b", "a", "c", "a", "b"):
        recent.get(key, lambda key=key: made.append(key) or len(made))
        assert len(recent) <= 2
    assert made == ["a", "b", "c", "b"]  # b was asked for longest ago when c came


def test_a_keypoint_is_nearest_to_itself(desk: Desk, pair: Sequence[Photo]) -> None:
    same = [pair[0], Photo("copy.png", pair[0].data)]
    looked = desk.look(same, SETTINGS, Spot(number=5))
    assert (looked["side"], looked["keypoint"], looked["photo"]) == (0, 5, "a.png")
    for view in looked["views"]:
        first = view["near"][0]
        assert first["keypoint"] == 5 and first["distance"] < 1e-3 and first["patch"] == view["patch"]
        assert first["agrees"] and first["is_match"]
        distances = [near["distance"] for near in view["near"]]
        assert len(distances) == NEIGHBORS and distances == sorted(distances)
    assert [view["model"] for view in looked["views"]] == ["hardnet.small", "sift"]


@pytest.mark.parametrize("side", [0, 1])
def test_a_click_finds_the_keypoint_below_it(desk: Desk, pair: Sequence[Photo], side: int) -> None:
    found = desk.match(pair, SETTINGS)
    row = found["is_inlier"].index(True)
    x, y = found[("points_a", "points_b")[side]][row]
    looked = desk.look(pair, SETTINGS, Spot((x + 0.5 + 280 * side) / 560, (y + 0.5) / 240))
    assert (looked["side"], looked["photo"]) == (side, pair[side].name)
    assert looked["x"] == pytest.approx(x, abs=1e-3) and looked["y"] == pytest.approx(y, abs=1e-3)
    assert any(near["is_match"] and near["agrees"] for near in looked["views"][0]["near"])
    assert image_in(looked["views"][1]["near"][3]["patch"]).shape == (64, 64, 3)
    plain, ringed = (image_in(each["picture"]["jpeg"]).astype(int) for each in (desk.show(pair, SETTINGS), looked))
    changed = np.argwhere(np.abs(plain - ringed).max(-1) > 60)[:, ::-1]
    assert len(changed) and np.abs(changed - [x + 280 * side, y]).max(1).min() < 12


def test_photos_of_one_name_are_told_apart_in_the_table(desk: Desk, pair: Sequence[Photo]) -> None:
    table = desk.show([pair[0], Photo("a.png", pair[1].data)], SETTINGS)["csv"].splitlines()
    assert table[1].startswith("a/a.png,b/a.png,")


def test_what_cannot_be_answered(desk: Desk, pair: Sequence[Photo]) -> None:
    for settings, words in (
        (MatchSettings("sfit"), "there is no model 'sfit'; did you mean sift"),
        (MatchSettings("/etc/passwd"), "there is no model"),
        (MatchSettings("sift", detector="dgo"), "did you mean dog"),
        (MatchSettings("sift", max_keypoints=20_001), "max_keypoints is at most 20000 here"),
    ):
        with pytest.raises(UserError, match=words):
            desk.match(pair, settings)
    with pytest.raises(UserError, match=r"notes\.jpg is not a picture"):
        desk.match([pair[0], Photo("notes.jpg", b"notes")], SETTINGS)
    with pytest.raises(UserError, match="there is no keypoint 200; the first photo has 200"):
        desk.look(pair, SETTINGS, Spot(number=200))


def test_photos_without_keypoints(desk: Desk, pair: Sequence[Photo]) -> None:
    flat = Photo("flat.png", cv2.imencode(".png", np.full((60, 80), 90, np.uint8))[1].tobytes())
    shown = desk.show([flat, pair[1]], SETTINGS)
    assert shown["numbers"][0]["matches"] == 0 and shown["numbers"][0]["verdict"] == "different"
    with pytest.raises(UserError, match="no keypoint was found"):
        desk.look([flat, pair[1]], SETTINGS, Spot(0.1, 0.1))
    assert desk.look([pair[1], flat], SETTINGS, Spot(number=0))["views"][0]["near"] == []

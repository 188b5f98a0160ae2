"""What page and API answer: what the command line answers, from caches that are bounded and used."""

import base64
import json
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from patchprint import cli
from patchprint.common.errors import UserError
from patchprint.features.extract import DescribeSettings
from patchprint.matching.matchers import MatchSettings
from patchprint.networks.weights import WEIGHTS_FOLDER, read_info
from patchprint.web import session as web_session
from patchprint.web.session import NEIGHBORS, MatchSession, Question, Upload, offered_models

MODELS = {"patchprint.tiny": "patchprint.tiny", "sift": "sift", "rootsift": "rootsift"}


def asked(
    images: Sequence[Upload], model: str = "patchprint.tiny", max_keypoints: int | None = 200, **more: Any
) -> Question:
    """Ask with any fields of both settings."""
    matching = {name: more.pop(name) for name in ("matcher", "ratio", "geometry") if name in more}
    return Question(
        images, DescribeSettings(model=model, max_keypoints=max_keypoints, **more), MatchSettings(**matching)
    )


@pytest.fixture(scope="module")
def session() -> MatchSession:
    return MatchSession(MODELS, device="cpu")


@pytest.fixture(scope="module")
def pair(images: tuple[Path, Path]) -> Sequence[Upload]:
    return [Upload(path.name, path.read_bytes()) for path in images]


def command(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    capsys.readouterr()
    assert cli.main([*map(str, words), "--json", "--device", "cpu"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("ratio", [None, 0.7, 0.9])
def test_point_9_the_baseline_is_matched_with_the_ratio_of_the_model(
    session: MatchSession, pair: Sequence[Upload], ratio: float | None
) -> None:
    """It kept its own 0.80 whatever the page said, and the difference of both was shown."""
    compared = session.compare(asked(pair, ratio=ratio), "rootsift")
    used = ratio or read_info(WEIGHTS_FOLDER / "patchprint.tiny.safetensors").ratio
    assert compared["result"]["ratio"] == compared["baseline"]["ratio"] == used
    alone = session.match(asked(pair, "rootsift", ratio=used))
    assert compared["baseline"]["indices"] == alone["indices"] and compared["baseline"]["inliers"] == alone["inliers"]
    compared = session.compare(asked(pair, "sift", 50, matcher="mutual", geometry="none"), "rootsift")
    assert compared["result"]["ratio"] is compared["baseline"]["ratio"] is None
    assert compared["result"]["inliers"] is None and compared["result"]["sentence"] == ""


def test_another_ratio_describes_nothing_again(pair: Sequence[Upload], monkeypatch: pytest.MonkeyPatch) -> None:
    described = []
    extract = web_session.extract
    monkeypatch.setattr(web_session, "extract", lambda *a, **k: (described.append(a[1].info.name), extract(*a, **k))[1])
    session = MatchSession(MODELS, device="cpu")
    loose = session.compare(asked(pair, "rootsift", ratio=0.95), "sift")["result"]["matches"]
    assert described == ["rootsift", "rootsift", "sift", "sift"]
    strict = session.compare(asked(pair, "rootsift", ratio=0.5, matcher="ratio"), "sift")
    session.patches(asked(pair, "rootsift", geometry="homography"), "sift", "a", 3)
    assert len(described) == 4 and strict["result"]["matches"] < loose
    session.compare(asked(pair, "rootsift", 150), "sift")
    assert len(described) == 8


def test_a_keypoint_is_nearest_to_itself(session: MatchSession, pair: Sequence[Upload]) -> None:
    same = [pair[0], Upload("copy.png", pair[0].data)]
    looked = session.patches(asked(same), "sift", "a", 5)
    assert (looked["side"], looked["keypoint"]) == ("a", 5)
    for view in looked["views"]:
        first = view["neighbors"][0]
        assert first["keypoint"] == 5 and first["distance"] < 1e-3 and first["patch"] == view["patch"]
        assert first["agrees"] and first["is_match"]
        distances = [near["distance"] for near in view["neighbors"]]
        assert len(distances) == NEIGHBORS and distances == sorted(distances)
    assert [view["model"] for view in looked["views"]] == ["patchprint.tiny", "sift"]


@pytest.mark.parametrize("side", [0, 1])
def test_a_match_is_among_the_neighbors(session: MatchSession, pair: Sequence[Upload], side: int) -> None:
    found = session.match(asked(pair))
    keypoints = found["indices"][found["is_inlier"].index(True)]
    looked = session.patches(asked(pair), "sift", "ab"[side], keypoints[side])
    (match,) = (near for near in looked["views"][0]["neighbors"] if near["is_match"])
    assert match["keypoint"] == keypoints[1 - side] and match["agrees"]
    patch = np.frombuffer(base64.b64decode(looked["views"][1]["neighbors"][3]["patch"]), np.uint8)
    assert cv2.imdecode(patch, cv2.IMREAD_COLOR).shape == (64, 64, 3)


def test_what_cannot_be_answered(session: MatchSession, pair: Sequence[Upload]) -> None:
    for model, max_keypoints, words in (
        ("sift", 20_001, "max_keypoints is at most 20000 here"),
        ("sift", None, "max_keypoints is at most 20000 here"),
    ):
        with pytest.raises(UserError, match=words):
            session.match(asked(pair, model, max_keypoints))
    with pytest.raises(UserError, match=r"notes\.jpg is not an image"):
        session.match(asked([pair[0], Upload("notes.jpg", b"notes")]))
    for number in (200, -1):
        with pytest.raises(UserError, match=f"there is no keypoint {number}; image a has 200"):
            session.patches(asked(pair), "sift", "a", number)


def test_images_without_keypoints(session: MatchSession, pair: Sequence[Upload]) -> None:
    flat = Upload("flat.png", cv2.imencode(".png", np.full((60, 80), 90, np.uint8))[1].tobytes())
    compared = session.compare(asked([flat, pair[1]]), "sift")
    assert compared["result"]["matches"] == 0 and compared["all_a"] == []
    assert session.patches(asked([pair[1], flat]), "sift", "a", 0)["views"][0]["neighbors"] == []


def test_weights_of_the_user_come_first(tmp_path: Path) -> None:
    mine = tmp_path / "mine.safetensors"
    shutil.copy(WEIGHTS_FOLDER / "patchprint.tiny.safetensors", mine)
    known, ratios = offered_models([mine])
    assert list(known)[:2] == ["mine", "patchprint"] and list(known) == list(ratios)
    assert known["mine"] == str(mine) and ratios["mine"] == ratios["patchprint.tiny"] and ratios["pixels"] is None
    with pytest.raises(UserError, match="two weight files are called mine"):
        offered_models([mine, mine])
    with pytest.raises(UserError, match="lost"):
        offered_models([tmp_path / "lost.safetensors"])


def test_the_command_is_what_must_be_typed() -> None:
    def typed(names: Sequence[str], **settings: Any) -> str:
        known = {**MODELS, "patchprint": "patchprint", "mine": "/somewhere/mine.safetensors"}
        settings = {"model": "patchprint", "max_keypoints": 4096, **settings}
        return asked([Upload(name, b"") for name in names], **settings).command_line(known)

    assert typed(["a.jpg", "b.jpg"]) == "patchprint match a.jpg b.jpg"
    assert typed(["my photo.jpg", "b.jpg"], model="sift", max_keypoints=64, matcher="ratio", ratio=0.75) == (
        "patchprint match 'my photo.jpg' b.jpg --max-keypoints 64 --model sift --matcher ratio --ratio 0.75"
    )
    assert typed(["a", "b"], spread=False, upright=True) == "patchprint match a b --upright --no-spread"
    assert typed(["a", "b"], model="mine") == "patchprint match a b --model mine.safetensors"


def test_l4_a_name_with_a_dash_is_no_flag(
    images: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "--model.png", "-b.png"
    for name, path in zip(names, images, strict=True):
        shutil.copy(path, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    line = asked([Upload(name, b"") for name in names], "sift", 50).command_line(MODELS)
    assert line.startswith("patchprint match ./--model.png ./-b.png --max-keypoints 50 --model sift")
    assert command(capsys, *shlex.split(line)[1:])["keypoints_a"] == 50

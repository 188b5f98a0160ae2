import json

import cv2
import pytest

import patchprint
from patchprint.cli import main
from patchprint.storage.match_folder import read_matches
from support.known_images import texture


def test_commands_and_python_know_it(tmp_path, capsys):
    paths = [str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    for path in paths:
        cv2.imwrite(path, texture(120, 160))
    a, b = (patchprint.extract(path, "pixels", max_keypoints=60) for path in paths)
    assert len(patchprint.match(a, b, "yours", count=20)) == 20
    settings = patchprint.MatchSettings(matcher="yours", geometry="none")
    assert patchprint.match_and_verify(a, b, settings).score is not None
    command = ["match", *paths, "--matcher", "yours", "--model", "pixels", "--out", str(tmp_path / "m.npz"), "--json"]
    assert main(command) == 0
    assert len(json.loads(capsys.readouterr().out)["score"]) == 50
    assert read_matches(tmp_path / "m.npz")["a.png", "b.png"].score.shape == (50,)
    with pytest.raises(ValueError, match=r"a ratio belongs to the matchers .*, not to yours"):
        patchprint.MatchSettings(matcher="yours", ratio=0.8)
    assert main(["match", "--help"]) == 0
    assert "yours}" in capsys.readouterr().out

import json

import cv2

import patchprint
from patchprint.cli import main
from support.known_images import texture


def test_commands_and_python_know_it(tmp_path, capsys):
    cv2.imwrite(str(tmp_path / "a.png"), texture(120, 160))
    for name in ("yours", "yours-strict", "points"):
        found = patchprint.extract(tmp_path / "a.png", "pixels", detector=name, max_keypoints=40)
        assert 0 < len(found) <= 40
        assert main(["match", *2 * [str(tmp_path / "a.png")], "--detector", name, "--model", "pixels", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["matches"] > 0
    assert main(["match", "a.png", "b.png", "--detector", "yuors"]) == 2

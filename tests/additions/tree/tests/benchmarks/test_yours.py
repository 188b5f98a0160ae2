import json

import cv2

from patchprint.cli import main
from support.known_images import texture


def test_pixels_stand_alone_more_often_than_nothing(tmp_path, capsys):
    cv2.imwrite(str(tmp_path / "a.png"), texture(120, 160))
    command = ["eval", "yours", "--data", str(tmp_path / "a.png"), "--no-cache", "--apart", "0.05"]
    assert main([*command, "--model", "pixels", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert 0 < result["scores"]["alone"] <= 1
    assert result["settings"] == {"keypoints": 50, "apart": 0.05}
    assert main([*command, "--model", "pixels", "--model", "sift"]) == 0
    assert "crowded" in capsys.readouterr().out
